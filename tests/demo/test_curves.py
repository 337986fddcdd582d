"""From numbers to places on paper."""

from __future__ import annotations

import math

import pytest

from coconet.demo.curves import Scale, chart, decades, round_ticks


def points(line) -> list[tuple[float, float]]:
    return [tuple(map(float, pair.split(","))) for pair in line.points.split()]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1, 200, [0, 50, 100, 150, 200]),
        (2.31, 4.87, [2, 3, 4, 5]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 3, [-4, -2, 0, 2, 4]),
        (5, 5, [5, 6]),
        (0, 0, [0, 0.2]),
    ],
)
def test_round_ticks(low, high, ticks):
    assert round_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("high", [1e-9, 0.003, 7, 12345.6, 1e12])
def test_round_ticks_hold_everything(high):
    ticks = round_ticks(high / 3, high)
    assert ticks[0] <= high / 3
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8


def test_decades():
    assert decades([2e-7, 0.0, 3e-4]) == pytest.approx([1e-7, 1e-6, 1e-5, 1e-4, 1e-3])
    assert decades([0.0]) == [1.0, 10.0]


def test_scale_is_straight_or_logarithmic_and_keeps_inside():
    straight = Scale(1, 3, 0, 100)
    assert [straight(x) for x in (1, 2, 3, 9)] == [0, 50, 100, 100]
    log = Scale(1e-4, 1e-2, 200, 0, is_log=True)
    assert log(1e-3) == pytest.approx(100)
    assert log(0.0) == 200


def test_first_and_last_point_span_the_plot_and_y_goes_down():
    made = chart({"a": [4.0, 3.0, 2.0]})
    (line,) = made.lines
    found = points(line)
    assert [x for x, _ in found] == [
        made.left,
        (made.left + made.right) / 2,
        made.right,
    ]
    ys = [y for _, y in found]
    assert ys == sorted(ys)
    assert ys[0] == made.top
    assert ys[-1] == made.bottom
    assert made.y_ticks[0].label == "2"


def test_ticks_lie_where_the_numbers_do():
    made = chart({"a": [float(n) for n in range(1, 101)]})
    spots = {tick.label: tick.at for tick in made.x_ticks}
    heights = {tick.label: tick.at for tick in made.y_ticks}
    x, y = points(made.lines[0])[59]  # the 60th step, whose number is 60
    assert spots["60"] == pytest.approx(x, abs=0.1)
    assert heights["60"] == pytest.approx(y, abs=0.1)
    assert "0" not in spots


def test_a_limit_has_a_place_of_its_own():
    made = chart({"a": [0.0, 1e-7, 1e-5]}, is_log=True, limit=1e-3)
    assert made.top <= made.limit_at < min(y for _, y in points(made.lines[0]))
    assert points(made.lines[0])[0][1] == made.bottom
    assert chart({"a": [1.0]}).limit_at is None


def test_numbers_that_are_not_finite_are_left_out():
    made = chart({"a": [1.0, math.nan, 2.0, math.inf]})
    assert len(points(made.lines[0])) == 2
    assert chart({"a": [math.nan]}).lines[0].points == ""

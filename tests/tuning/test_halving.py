"""Successive halving, with made-up times."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from coconet.tuning.halving import TURNS, Race, Timing, race, survivors


def never() -> bool:
    return False


def run(speeds: dict[str, float], *, noise: float = 0.0, **options: Any) -> Race[str]:
    rng = random.Random(0)

    def turn(entrant: str) -> float:
        return speeds[entrant] * (1 + noise * rng.random())

    given = {"is_late": never, "is_stopped": never} | options
    return race(list(speeds), turn, **given)


def after(turns: int) -> Callable[[], bool]:
    """Become true after being asked that often."""
    asked = iter(range(turns))
    return lambda: next(asked, None) is None


def test_a_timing_is_a_median_and_its_bounds():
    assert Timing.of([3.0]) == Timing(3.0, 3.0, 3.0, 1)
    assert Timing.of([5.0, 1.0, 2.0]) == Timing(2.0, 1.0, 5.0, 3)
    many = Timing.of([float(number) for number in range(100)])
    assert (many.median_s, many.low_s, many.high_s) == (49.5, 40.0, 59.0)


def test_what_is_surely_beaten_is_left_out_and_ties_keep_their_order():
    times = {"slow": [9.0, 9.1], "b": [1.0, 3.0], "a": [2.0, 2.0], "c": [1.9, 4.0]}
    assert survivors(times, 9) == ["b", "a", "c"]
    assert survivors(times, 1) == ["b"]


def test_the_fastest_wins_through_noise():
    speeds = {f"s{number}": 1.0 + number / 20 for number in range(7)}
    found = run(speeds, noise=0.04)
    assert found.order[0] == "s0"
    assert set(found.times_s) == set(speeds)


def test_close_entrants_halve_and_clear_ones_end_the_race():
    close = run({"a": 1.0, "b": 1.001, "c": 1.002, "d": 1.003}, noise=0.5)
    turns = sorted(len(times) for times in close.times_s.values())
    assert turns == [TURNS[0], TURNS[0], TURNS[0] + TURNS[1], TURNS[0] + TURNS[1]]
    clear = run({"a": 9.0, "b": 1.0, "c": 9.0})
    assert clear.order == ["b", "a", "c"]
    assert {len(times) for times in clear.times_s.values()} == {TURNS[0]}


def test_a_late_race_has_timed_everybody_once():
    found = run({"a": 3.0, "b": 2.0, "c": 1.0}, is_late=lambda: True)
    assert {name: len(times) for name, times in found.times_s.items()} == {
        **{"a": 1, "b": 1, "c": 1}
    }
    assert found.order == ["c", "b", "a"]


def test_a_stopped_race_keeps_what_it_has():
    found = run({"a": 3.0, "b": 2.0, "c": 1.0}, is_stopped=after(1))
    assert found.order == ["b", "a"]
    assert list(found.times_s) == ["a", "b"]
    assert run({"a": 3.0}, is_stopped=lambda: True).times_s == {"a": [3.0]}


def test_each_entrant_that_is_out_is_dropped_once():
    dropped: list[str] = []
    speeds = {"a": 1.0, "b": 1.0, "c": 1.1, "d": 5.0}
    found = run(speeds, noise=0.3, drop=dropped.append)
    assert sorted([*dropped, found.order[0]]) == sorted(speeds)

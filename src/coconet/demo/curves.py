"""Numbers to lines on paper: what an SVG needs of a chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Chart", "Line", "Tick", "chart", "decades", "round_ticks"]

WIDTH, HEIGHT = 720.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 12.0, 12.0, 40.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """One series; points is the attribute of a polyline."""

    name: str
    points: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart in user units of an SVG of width x height, y downwards.

    limit_at  where a horizontal line marks the limit, None without one
    """

    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    limit_at: float | None = None
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps numbers from low..high to places, straight or by their logarithm."""

    low: float
    high: float
    first: float
    last: float
    is_log: bool = False

    def __call__(self, number: float) -> float:
        """Return the place of a number; one outside lands on the border."""
        low, high, x = self.low, self.high, min(max(number, self.low), self.high)
        if self.is_log:
            low, high, x = math.log10(low), math.log10(high), math.log10(x)
        return self.first + (x - low) / (high - low) * (self.last - self.first)


def chart(
    series: Mapping[str, Sequence[float]],
    *,
    is_log: bool = False,
    limit: float | None = None,
) -> Chart:
    """Lay out series over their steps, counted from 1.

    Numbers that are not finite are left out; a logarithmic axis has no place for 0,
    which lies on its lower border.
    """
    steps = max(len(losses) for losses in series.values())
    numbers = [x for losses in series.values() for x in losses if math.isfinite(x)]
    numbers += [] if limit is None else [limit]
    numbers = numbers or [0.0]
    y_numbers = decades(numbers) if is_log else round_ticks(min(numbers), max(numbers))
    x_numbers = [x for x in round_ticks(1, max(steps, 2)) if 1 <= x <= steps]
    x = Scale(1, max(steps, 2), LEFT, WIDTH - RIGHT)
    y = Scale(y_numbers[0], y_numbers[-1], HEIGHT - BOTTOM, TOP, is_log)
    return Chart(
        lines=tuple(Line(name, _points(s, x, y)) for name, s in series.items()),
        x_ticks=tuple(Tick(round(x(number), 1), f"{number:g}") for number in x_numbers),
        y_ticks=tuple(
            Tick(round(y(number), 1), f"{number:.4g}") for number in y_numbers
        ),
        limit_at=None if limit is None else round(y(limit), 1),
    )


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers, evenly apart, the first <= low and the last >= high."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(k * power for k in (1, 2, 5, 10) if k * power * about >= span)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def decades(numbers: Sequence[float]) -> list[float]:
    """Return the powers of ten around the numbers that are positive."""
    positive = [number for number in numbers if number > 0] or [1.0]
    first = math.floor(math.log10(min(positive)))
    last = math.ceil(math.log10(max(positive)))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _points(numbers: Sequence[float], x: Scale, y: Scale) -> str:
    return " ".join(
        f"{x(step):.1f},{y(number):.1f}"
        for step, number in enumerate(numbers, start=1)
        if math.isfinite(number)
    )

"""Options that users give as numbers: checked where they are given."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from operator import index
from typing import Any, SupportsIndex, cast

__all__ = ["checked_count", "checked_counts", "checked_seconds"]

LONGEST_S = 1e6
"""About 11 days: poll counts milliseconds in 31 bits."""


def checked_count(name: str, number: Any, *, least: int = 1) -> int:
    """Return a whole number from `least` on; numpy's are fine, a bool is none.

    Raises TypeError, ValueError.
    """
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise TypeError(f"{name} is a whole number, got {number!r}")
    count = index(number)
    if count < least:
        raise ValueError(f"{name} is a whole number from {least} on, got {number!r}")
    return count


def checked_counts(name: str, numbers: Any, *, least: int = 1) -> tuple[int, ...]:
    """Return some whole numbers from `least` on; raises TypeError, ValueError."""
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Iterable):
        raise TypeError(f"{name} is a list of whole numbers, got {numbers!r}")
    given = cast("Iterable[Any]", numbers)
    return tuple(checked_count(name, number, least=least) for number in given)


def checked_seconds(name: str, number: Any, *, least: float | None = None) -> float:
    """Return seconds, over 0 or from `least` on; raises TypeError, ValueError."""
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name} is a number of seconds, got {number!r}")
    seconds = float(number)
    is_enough = seconds > 0 if least is None else seconds >= least
    if not is_enough or not seconds <= LONGEST_S:
        start = "over 0" if least is None else f"from {least:g} on"
        raise ValueError(f"{name} is {start} and at most 1e6 s, got {number!r}")
    return seconds

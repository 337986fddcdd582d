"""Successive halving: time in turns, drop the worse half, give the rest more turns.

Nothing here looks at a clock, so ranks that see equal times decide alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["TURNS", "Race", "Timing", "race", "survivors"]

E = TypeVar("E")

TURNS = (4, 4, 6, 8)
"""Turns of each entrant in one round after the other."""

_QUANTILE = 1.96


@dataclass(frozen=True, slots=True)
class Timing:
    """What the turns of one entrant came to.

    low_s, high_s  between which its true median is with 95 %; the range of few turns
    Units          seconds per call
    """

    median_s: float
    low_s: float
    high_s: float
    turns: int

    @staticmethod
    def of(times_s: Sequence[float]) -> Timing:
        """Summarise one or more turns; the bounds are order statistics."""
        ordered, count = sorted(times_s), len(times_s)
        skipped = max(0, int((count - _QUANTILE * math.sqrt(count)) / 2))
        low_s, high_s = ordered[skipped], ordered[-1 - skipped]
        return Timing(statistics.median(ordered), low_s, high_s, count)


def survivors(times_s: Mapping[E, Sequence[float]], most: int) -> list[E]:
    """Return the best entrants, the best first, at most so many.

    Left out, even if there is room, is what the leader surely beats: all that it may
    be is worse than all that the leader may be.
    """
    timings = {entrant: Timing.of(times) for entrant, times in times_s.items()}
    order = sorted(timings, key=lambda entrant: timings[entrant].median_s)
    bound_s = timings[order[0]].high_s
    return [entrant for entrant in order if timings[entrant].low_s <= bound_s][:most]


@dataclass(frozen=True, slots=True)
class Race(Generic[E]):
    """How a race went.

    times_s  seconds per call of each turn of each entrant that had one
    order    these entrants, the best first; after them those that dropped out
    """

    times_s: Mapping[E, Sequence[float]]
    order: Sequence[E]


def race(
    entrants: Sequence[E],
    turn: Callable[[E], float],
    *,
    is_late: Callable[[], bool],
    is_stopped: Callable[[], bool],
    drop: Callable[[E], None] = lambda _: None,
) -> Race[E]:
    """Time entrants in turns, and halve their number until one is left.

    turn        takes a turn and returns its seconds per call
    is_late     ends the race once each entrant had a turn
    is_stopped  ends the race once any had one
    drop        is told of each entrant that gets no more turns
    """
    times_s: dict[E, list[float]] = {}
    alive = list(entrants)

    def finish() -> Race[E]:
        medians_s = {
            entrant: Timing.of(times_s[entrant]).median_s for entrant in times_s
        }
        order = sorted(medians_s, key=lambda e: (e not in alive, medians_s[e]))
        return Race(times_s, order)

    for turns in TURNS:
        for entrant in alive * turns:
            may_stop = is_late() if entrant in times_s else False
            if times_s and (may_stop or is_stopped()):
                return finish()
            times_s.setdefault(entrant, []).append(turn(entrant))
        kept = survivors({e: times_s[e] for e in alive}, -(-len(alive) // 2))
        for entrant in alive:
            if entrant not in kept:
                drop(entrant)
        alive = kept
        if len(alive) == 1:
            break
    return finish()

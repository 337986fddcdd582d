"""How our side ran, as text."""

from __future__ import annotations

from dataclasses import dataclass

from coconet.backends.c import print_plan
from coconet.lower import lower
from coconet.schedule import Schedule

__all__ = ["Listing", "listing_of"]


@dataclass(frozen=True, slots=True)
class Listing:
    """A schedule, its program before and after, and what became of it."""

    schedule: str
    before: str
    after: str
    plan: str
    code: str


def listing_of(schedule: Schedule, ranks: int) -> Listing:
    """Return the texts of a schedule on so many ranks."""
    plan = lower(schedule.result, ranks)
    return Listing(
        schedule=str(schedule),
        before=str(schedule.program),
        after=str(schedule.result),
        plan=str(plan),
        code=print_plan(plan),
    )

"""What was checked, and what differed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coconet.errors import VerificationError

__all__ = ["Case", "Report"]


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: a schedule, on a number of ranks, at one size, run in one way.

    mismatch  the first difference, or "" if every bit is equal
    """

    schedule: str
    ranks: int
    sizes: dict[str, int]
    executor: str
    mismatch: str = ""

    def __str__(self) -> str:
        """Return one line."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        where = f"{self.schedule} on {self.ranks} ranks, {sizes}, {self.executor}"
        return f"{where}: {self.mismatch or 'equal'}"


@dataclass(frozen=True, slots=True)
class Report:
    """Every case of one verification."""

    program: str
    cases: tuple[Case, ...]

    @property
    def mismatches(self) -> tuple[Case, ...]:
        """The cases that differ."""
        return tuple(case for case in self.cases if case.mismatch)

    def raise_if_wrong(self) -> None:
        """Raise VerificationError that names the first difference, if there is one."""
        wrong = self.mismatches
        if wrong:
            raise VerificationError(
                f"a schedule of {self.program!r} differs from the program",
                got=str(wrong[0]),
                need="the same bits",
                fix=f"{len(wrong)} of {len(self.cases)} cases differ",
            )

    def __str__(self) -> str:
        """Return a summary, one line per schedule and number of ranks."""
        lines = [f"{self.program}: {len(self.cases)} cases"]
        keys: Sequence[tuple[str, int]] = list(
            dict.fromkeys((case.schedule, case.ranks) for case in self.cases)
        )
        for schedule, ranks in keys:
            of = [c for c in self.cases if (c.schedule, c.ranks) == (schedule, ranks)]
            wrong = sum(bool(case.mismatch) for case in of)
            which = f"  {schedule:<13} {ranks} ranks"
            lines.append(f"{which}  {len(of):>3} cases  {wrong} mismatches")
        return "\n".join(lines + [f"  {case}" for case in self.mismatches])

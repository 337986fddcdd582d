"""What a tuning tried, how long each took, and what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from coconet.errors import ScheduleError

__all__ = ["Report", "Row", "time_text"]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One candidate: a schedule with its knobs.

    steps       verbs of its schedule, in order
    knobs       those that differ from the defaults
    estimate_s  what the cost model says
    median_s    of the slowest rank's turns; None: it was not timed
    low_s, high_s  between which the median truly is, with 95 %
    verdict     how it compares, or why it was not timed
    Units       seconds per call
    """

    name: str
    steps: tuple[str, ...]
    knobs: str
    estimate_s: float
    median_s: float | None
    low_s: float | None
    high_s: float | None
    turns: int
    verdict: str

    @property
    def is_baseline(self) -> bool:
        """Whether no kernel computes several values, with the default knobs."""
        return self.name in ("as_written", "unfused") and not self.knobs

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as the table prints it."""
        timed = self.median_s is not None
        return (
            " ".join(filter(None, (self.name, self.knobs))),
            time_text(self.estimate_s),
            time_text(self.median_s) if timed else "",
            f"{time_text(self.low_s)} .. {time_text(self.high_s)}" if timed else "",
            self.verdict,
        )


_HEAD = ("candidate", "estimate", "median", "95 % of medians", "verdict")


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole tuning; print it.

    sizes            numbers of the symbolic dims
    rows             every candidate, the fastest first, those without a time last
    explored         schedules that the search found
    was_capped       whether it stopped at its limit
    refused          steps that are not legal here, and why
    wall_s           seconds that the tuning took
    was_interrupted  whether Ctrl-C ended it early
    was_late         whether its time was up before everything was compared
    """

    program: str
    ranks: int
    sizes: dict[str, int]
    rows: tuple[Row, ...]
    explored: int
    was_capped: bool
    refused: tuple[tuple[str, str], ...]
    wall_s: float
    was_interrupted: bool
    was_late: bool

    @property
    def best(self) -> Row:
        """The winner."""
        return self.rows[0]

    @property
    def baseline(self) -> Row:
        """The program without any fusion, always timed."""
        return next(row for row in self.rows if row.is_baseline)

    @property
    def is_whole(self) -> bool:
        """Whether it has the times of a winner and of the baseline."""
        timed = [row for row in self.rows if row.median_s is not None]
        return self.rows[:1] == tuple(timed[:1]) and any(r.is_baseline for r in timed)

    def raise_if_nothing_won(self) -> None:
        """Raise ScheduleError if nothing is faster than the program without fusions."""
        if self.best.name == self.baseline.name:
            raise ScheduleError(
                f"nothing is faster than {self.program!r} without fusions",
                got=self._headline(),
                need="a schedule that wins",
                fix="print(report): what was tried, and what was refused",
            )

    def __str__(self) -> str:
        """Return the table, and the winner's steps."""
        table = [_HEAD, *(row.cells for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [self._headline(), *(_line(cells, widths) for cells in table)]
        steps = ["", f"the schedule of {self.best.name}:", *self.best.steps]
        return "\n".join([*lines, *("  " + step if step else "" for step in steps)])

    def _headline(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        where = " at ".join(filter(None, (f"{self.ranks} ranks", sizes)))
        timed = sum(row.median_s is not None for row in self.rows)
        capped = ", and there are more" if self.was_capped else ""
        early = {
            "interrupted, the best so far is kept": self.was_interrupted,
            "out of time": self.was_late,
        }
        ends = "".join(f"; {why}" for why, is_so in early.items() if is_so)
        return (
            f"{self.program} on {where}: {self.explored} schedules{capped}; "
            f"{timed} candidates timed in {self.wall_s:.1f} s{ends}"
        )


def time_text(seconds: float | None) -> str:
    """Return a time with three digits and a unit that fits it."""
    if seconds is None:
        return ""
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *times, verdict = cells
    padded = [first.ljust(widths[0])]
    padded += [t.rjust(w) for t, w in zip(times, widths[1:-1], strict=True)]
    return "  ".join([*padded, verdict]).rstrip()

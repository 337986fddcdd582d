"""What a schedule does, what it could not do and why, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coconet.backends.c.compile import CompiledStep
from coconet.backends.c.words import Knobs
from coconet.ir import Program
from coconet.lower import lower
from coconet.options import checked_count
from coconet.plan import Arrive, Barrier, Tile
from coconet.schedule import Draft, Schedule, SliceState
from coconet.tuning.cost import Machine, estimate
from coconet.tuning.decision import Decision
from coconet.tuning.measure import knobs_text
from coconet.tuning.report import Report, time_text
from coconet.tuning.request import Request, checked_sizes
from coconet.tuning.search import search
from coconet.tuning.traffic import least_bytes
from coconet.tuning.tune import Tuned, remembered

__all__ = ["Cost", "Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call moves on the rank that has most to do, at some sizes.

    moved_bytes  read and written by the plan's loops, in any rank's memory
    wire_bytes   of these, in a peer's
    least_bytes  what no schedule of the program could do without
    """

    sizes: dict[str, int]
    moved_bytes: int
    wire_bytes: int
    least_bytes: int
    estimate_s: float

    def __str__(self) -> str:
        """Return one line."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        times = self.moved_bytes / max(self.least_bytes, 1)
        return (
            f"{_bytes_text(self.moved_bytes)} a call{f' at {sizes}' if sizes else ''}, "
            f"{_bytes_text(self.wire_bytes)} of it at peers; the least possible is "
            f"{_bytes_text(self.least_bytes)} ({times:.2f}x)"
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """A schedule, explained; print it.

    applied     its steps
    refused     steps that are not legal on this program, and why
    kernels     what each loop of its plan computes, in order
    num_waits   how often all ranks wait for each other in one call on symmetric tensors
    knobs       those that differ from the defaults
    cost        None where no sizes are known
    median_s    of a call, as tuned; None: not measured
    baseline_s  likewise of the program without fusions
    """

    program: str
    ranks: int
    applied: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    kernels: tuple[str, ...]
    num_waits: int
    knobs: str
    cost: Cost | None
    median_s: float | None
    baseline_s: float | None

    def __str__(self) -> str:
        """Return one fact per line."""
        lines = [f"{self.program} on {self.ranks} ranks"]
        lines += [f"  applied  {step}" for step in self.applied or ("nothing",)]
        lines += [f"  refused  {step}: {why}" for step, why in self.refused]
        lines += [f"  kernel   {name}" for name in self.kernels]
        lines.append(f"  waits    {self.num_waits} times for all ranks")
        lines.append(f"  knobs    {self.knobs or 'the defaults'}")
        lines.append(f"  moves    {self.cost or 'unknown without sizes'}")
        if self.median_s is None:
            lines.append("  time     not measured; tune the program to know it")
        else:
            lines.append(
                f"  time     {time_text(self.median_s)}, "
                f"without fusions {time_text(self.baseline_s)}"
            )
        return "\n".join(lines)


def explain(
    what: Any,
    *,
    ranks: int | None = None,
    sizes: Mapping[str, Any],
    slice_state: Sequence[str] = (),
) -> Explanation:
    """Explain a program, a schedule or draft, or a compiled or tuned step.

    ranks  how many; None: what the step or the program's group says, else two
    sizes  numbers of all symbolic dims, or of none; a program that was tuned at such
           sizes, with such state in pieces, is explained as it was tuned

    Raises TypeError, ValueError, GroupError.
    """
    subject = _subject(what)
    program = subject.schedule.program
    fixed = [group.size for group in program.groups if group.size]
    if ranks is None:
        ranks = subject.ranks or next(iter(fixed), 2)
    checked_count("ranks", ranks)
    wanted = sizes or subject.sizes
    known = checked_sizes(program, wanted) if wanted or not program.dims else None
    if known is not None and isinstance(what, Program):
        decision = remembered(
            Request.of(what, sizes=known, slice_state=slice_state), ranks
        )
        subject = _of_decision(decision) if decision else subject
    return _explanation(subject, ranks, known)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is explained, with what is known of it."""

    schedule: Schedule
    ranks: int | None = None
    knobs: Knobs = field(default_factory=Knobs)
    report: Report | None = None

    @property
    def sizes(self) -> dict[str, int]:
        return self.report.sizes if self.report else {}


def _subject(what: Any) -> _Subject:
    match what:
        case Program():
            return _Subject(what.schedule().schedule)
        case Draft():
            return _Subject(what.schedule)
        case Schedule():
            return _Subject(what)
        case Tuned():
            return _of_decision(what.decision)
        case CompiledStep(schedule=Schedule() as schedule):
            return _Subject(schedule, what.plan.ranks, what.knobs)
        case _:
            raise TypeError(
                "a program, a schedule, a compiled or a tuned step can be explained, "
                f"got {type(what).__name__}"
            )


def _of_decision(decision: Decision) -> _Subject:
    report = decision.report
    return _Subject(decision.schedule, report.ranks, decision.knobs, report)


def _explanation(
    subject: _Subject, ranks: int, sizes: Mapping[str, int] | None
) -> Explanation:
    schedule, report = subject.schedule, subject.report
    plan = lower(schedule.result, ranks)
    state = [step.target for step in schedule.steps if isinstance(step, SliceState)]
    found = report or search(schedule.program, slice_state=state)
    return Explanation(
        program=schedule.program.name,
        ranks=ranks,
        applied=tuple(map(str, schedule.steps)),
        refused=found.refused,
        kernels=tuple(step.name for step in plan.body if isinstance(step, Tile)),
        num_waits=sum(isinstance(step, Arrive | Barrier) for step in plan.body),
        knobs=knobs_text(subject.knobs),
        cost=None if sizes is None else _cost(schedule, ranks, sizes),
        median_s=report.best.median_s if report else None,
        baseline_s=report.baseline.median_s if report else None,
    )


def _cost(schedule: Schedule, ranks: int, sizes: Mapping[str, int]) -> Cost:
    found = estimate(schedule.result, ranks, sizes, Machine())
    return Cost(
        sizes=dict(sizes),
        moved_bytes=int(found.memory_bytes),
        wire_bytes=int(found.wire_bytes),
        least_bytes=least_bytes(schedule.result, ranks, sizes),
        estimate_s=found.seconds,
    )


def _bytes_text(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"

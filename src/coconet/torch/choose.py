"""Which schedule the step of an optimizer takes, and why: fixed, given or tuned."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from coconet.backends.c import compile_plan
from coconet.backends.c.compile import CompiledStep
from coconet.errors import ResourceError, ScheduleError
from coconet.ir import Program
from coconet.lower import lower
from coconet.options import checked_seconds
from coconet.runtime.world import World
from coconet.schedule import Schedule
from coconet.torch.schedule import Scheduler, fused, kept_in_pieces, schedule_of
from coconet.tuning.progress import terminal
from coconet.tuning.report import Report, time_text
from coconet.tuning.request import Request
from coconet.tuning.tune import tune as run_tuner

__all__ = ["TUNED_AT_MOST", "TUNED_FROM", "Choice", "Chooser", "Tune"]

Tune = bool | str | os.PathLike[str] | Schedule
"""Whether to tune, or what to take instead: a schedule, or the path of its JSON."""

TUNED_FROM = 1 << 18
"""Elements from which tuning may pay: one kernel is the best schedule of a step at any
size by the cost model, and what is smaller stays in the caches, whatever the knobs."""

TUNED_AT_MOST = 1 << 24
"""Elements at which what is larger is tuned: it streams through memory alike, and the
tuner's tensors take no more room than the optimizer's own."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A schedule of one program, compiled.

    why      it is this one
    report   what the tuner tried; None: it was not asked
    is_open  the tuner is to be asked as soon as all ranks take a step
    """

    schedule: Schedule
    step: CompiledStep
    why: str
    report: Report | None = None
    is_open: bool = False


class Chooser:
    """Chooses for all programs of one optimizer, the same on every rank.

    scheduler    the user's, which then decides alone
    tune         see Tune
    tune_time_s  seconds that all tunings may take; each gets at most half of the rest

    Raises TypeError, ValueError: an option that cannot be meant; OSError: no such file
    """

    def __init__(
        self,
        world: World,
        scheduler: Scheduler | None,
        tune: Tune,
        tune_time_s: float,
    ) -> None:
        """Check the options, and read the file."""
        self._world = world
        self._scheduler, self._given = scheduler, _given(tune)
        if scheduler is not None and self._given is not None:
            raise TypeError("schedule and tune both give a schedule; pass one of them")
        self._tunes = tune is True and scheduler is None
        self._left_s = checked_seconds("tune_time_s", tune_time_s)
        self._time_text = f"tune_time_s={self._left_s:g}"
        self._fixed: dict[Program, Choice] = {}
        self._tuned: dict[tuple[Program, int], Choice] = {}

    @property
    def text(self) -> str:
        """What must be the same on every rank."""
        if self._given is not None:
            return self._given.text
        own = "" if self._scheduler is None else "the user's schedule, "
        return f"{own}tunes: {self._tunes}, {self._time_text}"

    def refuse_misfit(self, programs: Iterable[Program]) -> None:
        """Raise ScheduleError if the given schedule fits none of these programs."""
        errors: list[ScheduleError] = []
        for program in programs if self._given else ():
            try:
                self._schedule(program)
            except ScheduleError as error:
                errors.append(error)
            else:
                return
        if errors:
            raise errors[0]

    def fixed(self, program: Program, scheduler: Scheduler | None = None) -> Choice:
        """Return what is not to be tuned; scheduler: instead of what the user wants."""
        if program not in self._fixed:
            if scheduler is None:
                schedule, why = self._wanted(program)
            else:
                schedule, why = schedule_of(program, scheduler), "the only one"
            plan = lower(schedule.result, self._world.size)
            step = compile_plan(plan, self._world)
            self._fixed[program] = Choice(schedule, step, why)
        return self._fixed[program]

    def first(self, program: Program, numel: int) -> Choice:
        """Return what is known without a word to the other ranks."""
        known = self._tuned.get(_key(program, numel))
        if known is not None:
            return known
        choice = self.fixed(program)
        if not self._tunes:
            return choice
        if numel < TUNED_FROM:
            return replace(choice, why=f"not tuned: fewer than {TUNED_FROM} elements")
        return replace(choice, why="not tuned before the first step", is_open=True)

    def tuned(self, program: Program, numel: int) -> Choice:
        """Ask the tuner, once for all sizes between the same powers of two.

        Blocks  until every rank calls
        Raises  RanksDisagree: another rank does something else meanwhile
        """
        key = _key(program, numel)
        if key not in self._tuned:
            self._tuned[key] = self._ask(program, numel)
        return self._tuned[key]

    def _ask(self, program: Program, numel: int) -> Choice:
        usual = self.fixed(program)
        if self._left_s <= 0:
            return replace(usual, why=f"not tuned: {self._time_text} is spent")
        request = Request.of(
            program,
            sizes={"N": min(numel, TUNED_AT_MOST)},
            slice_state=kept_in_pieces(program),
            time_box_s=self._left_s / 2,
        )
        world = self._world
        try:
            found = run_tuner(
                request, world, progress=terminal(world.rank), hurried=True
            )
        except ResourceError as error:
            return replace(usual, why=f"not tuned: {error.what}")
        report = found.report
        if not found.is_remembered:
            self._left_s -= report.wall_s  # as all ranks agreed on it
        how = "remembered, " if found.is_remembered else ""
        why = (
            f"{how}tuned at {report.sizes['N']} elements in {report.wall_s:.1f} s: "
            f"{time_text(report.best.median_s)}, "
            f"without fusions {time_text(report.baseline.median_s)}"
        )
        return Choice(found.schedule, found.step, why, report)

    def _wanted(self, program: Program) -> tuple[Schedule, str]:
        try:
            return self._schedule(program), self._source
        except ScheduleError as error:
            if self._given is None:
                raise
            why = f"{self._source} does not fit this program: {error.what}"
            return fused(program).schedule, why

    @property
    def _source(self) -> str:
        if self._given is not None:
            return f"given by {self._given.source}"
        return "tune=False" if self._scheduler is None else "given by schedule="

    def _schedule(self, program: Program) -> Schedule:
        if self._given is not None:
            return self._given.schedule_of(program)
        return schedule_of(program, self._scheduler or fused)


@dataclass(frozen=True, slots=True)
class _Given:
    """A schedule's JSON, and which argument it came from."""

    json: bytes
    source: str

    @property
    def text(self) -> str:
        return f"tune: a schedule, sha256 {hashlib.sha256(self.json).hexdigest()}"

    def schedule_of(self, program: Program) -> Schedule:
        """Apply it; what it leaves where must be what the fixed schedule does.

        So the programs of steps with and without all gradients share their state.
        """
        schedule = Schedule.from_json(program, self.json)
        for tensor in fused(program).program.tensors:
            layout = schedule.result[tensor.name].type.layout
            if layout != tensor.type.layout:
                raise ScheduleError(
                    "an optimizer keeps its state in pieces",
                    got=f"{tensor.name} {layout}",
                    need=tensor.type.layout,
                    fix="slice_state of " + ", ".join(kept_in_pieces(program)),
                )
        return schedule


def _given(tune: Tune) -> _Given | None:
    match tune:
        case bool():
            return None
        case Schedule():
            return _Given(tune.to_json().encode(), "tune=")
        case str() | os.PathLike():
            return _Given(Path(tune).read_bytes(), f"tune={os.fspath(tune)}")
        case _:
            raise TypeError(
                f"tune is True, False, a Schedule or the path of one, got {tune!r}"
            )


def _key(program: Program, numel: int) -> tuple[Program, int]:
    return program, min(numel, TUNED_AT_MOST).bit_length()

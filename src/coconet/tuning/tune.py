"""The tuner: find the fastest equal program, agree on it, and remember it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from coconet.backends.c import compile_plan
from coconet.backends.c.compile import CompiledStep
from coconet.backends.c.words import Knobs
from coconet.errors import CacheError
from coconet.lower import lower
from coconet.runtime.exchange import Exchange
from coconet.runtime.world import World
from coconet.schedule import Schedule
from coconet.tuning.cache import note_name, recall, remember, warn_of
from coconet.tuning.contest import Contest
from coconet.tuning.decision import Decision
from coconet.tuning.measure import Clock, Stopwatch
from coconet.tuning.progress import Progress
from coconet.tuning.report import Report, time_text
from coconet.tuning.request import Request

__all__ = ["Tuned", "remembered", "tune"]


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """A tuned program: call it like a compiled one.

    Fields  step      what `coconet.compile` returns for the schedule
            decision  schedule, knobs and report, as `to_json` gives them
            is_remembered  an earlier run measured it
    """

    step: CompiledStep
    decision: Decision
    is_remembered: bool

    @property
    def schedule(self) -> Schedule:
        """The fastest schedule."""
        return self.decision.schedule

    @property
    def knobs(self) -> Knobs:
        """The fastest numbers for it."""
        return self.decision.knobs

    @property
    def report(self) -> Report:
        """What was tried; print it."""
        return self.decision.report

    def to_json(self) -> str:
        """Return schedule, knobs and report as JSON."""
        return self.decision.to_json()

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run on this rank's arguments.  See CompiledStep."""
        return self.step(*given, **named)

    def bind(self, **options: Any) -> Any:
        """Fix the tensors.  See CompiledStep.bind."""
        return self.step.bind(**options)

    def __repr__(self) -> str:
        """Return program, ranks and verdict."""
        best, usual = self.report.best, self.report.baseline
        return (
            f"<tuned {self.report.program} on {self.report.ranks} ranks: "
            f"{time_text(best.median_s)}, as written {time_text(usual.median_s)}>"
        )


def tune(
    request: Request,
    world: World,
    *,
    progress: Progress,
    fresh: bool = False,
    hurried: bool = False,
    clock: Clock = time.perf_counter,
) -> Tuned:
    """Return the fastest equivalent of a program; every rank calls it, and agrees.

    fresh    time again, whatever is remembered
    hurried  take also what was remembered in a hurry, though there is more time now
    clock    of this rank; what it says moves no other rank to another winner

    Blocks  until every rank calls
    Raises  RanksDisagree: the ranks ask for different things
            ScheduleError: no schedule keeps the state in pieces
            ResourceError: the program without fusions does not fit into the memory
            GroupError, UnsupportedError, NoCompiler, CompileError
    """
    exchange = Exchange(world)
    exchange.agree("what to tune", request.text)
    known = None
    if world.rank == 0 and not fresh:
        known = remembered(request, world.size)
        if known and not hurried and known.was_hurried(request):
            known = None
    text = exchange.from_rank_0(known.to_json().encode() if known else b"").decode()
    is_remembered = bool(text)
    if not is_remembered:
        watch = Stopwatch(exchange, clock)
        text = Contest(request, world, exchange, watch, progress).decide().to_json()
        exchange.agree("the tuner's decision", text)
        if world.rank == 0:
            remember(note_name(request, world.size), text)
    world.pool.trim()  # of the tuner's tensors
    decision = Decision.from_json(request.program, text)
    plan = lower(decision.schedule.result, world.size)
    step = compile_plan(plan, world, knobs=decision.knobs)
    return Tuned(step, decision, is_remembered)


def remembered(request: Request, ranks: int) -> Decision | None:
    """Return what an earlier run decided about a request, None if that is not known."""
    kept = recall(note_name(request, ranks))
    try:
        return Decision.from_json(request.program, kept) if kept else None
    except CacheError as error:
        warn_of(error)
        return None

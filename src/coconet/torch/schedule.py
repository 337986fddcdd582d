"""The schedule of an optimizer's step: one kernel."""

from __future__ import annotations

from collections.abc import Callable

from coconet.ir import Program
from coconet.ops import AllGather, AllReduce
from coconet.schedule import Draft, Schedule

__all__ = ["Scheduler", "fused", "kept_in_pieces", "one_kernel", "schedule_of"]

Scheduler = Callable[[Program], Draft | Schedule]
"""From the program of a step to a schedule of it."""

WHOLE = ("g", "p", "a")
"""Inputs that the caller has whole, or in the pieces that the program says."""


def fused(program: Program) -> Draft:
    """Reduce, update and hand out this rank's piece in one kernel; slice the state."""
    draft = program.schedule()
    scatter: object = ()
    for total in program.values_of(AllReduce):
        scatter, _ = draft.split(total)
    (gather,) = draft.program.values_of(AllGather)
    region, tail = draft.reorder(gather, program.effects)
    draft.slice_state(*kept_in_pieces(program))
    draft.dead(*(v for v in draft.program.values if not draft.program.is_live(v)))
    draft.fuse(scatter, region, tail)
    return draft


def kept_in_pieces(program: Program) -> tuple[str, ...]:
    """Return the inputs of which each rank has its piece only: state, and the mask."""
    return tuple(t.name for t in program.tensors if t.name not in WHOLE)


def one_kernel(program: Program) -> Draft:
    """Compute everything in one kernel, as the program says it."""
    draft = program.schedule()
    draft.fuse(*program.values)
    return draft


def schedule_of(program: Program, scheduler: Scheduler) -> Schedule:
    """Return what a scheduler makes of a program."""
    made = scheduler(program)
    return made.schedule if isinstance(made, Draft) else made

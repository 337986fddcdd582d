"""Ready schedules, written with the verbs alone."""

from __future__ import annotations

from collections.abc import Sequence

from coconet.errors import ScheduleError
from coconet.ir import FLAT, Cut, Program, Value, said
from coconet.ops import AllGather, AllReduce
from coconet.schedule.legality import descendants
from coconet.schedule.schedule import Draft, Schedule
from coconet.schedule.slice_state import SliceState

__all__ = ["fused", "library", "local_fused", "one_shot", "split_fused"]


def library(
    program: Program, *, state: Sequence[str] | None = None
) -> dict[str, Schedule]:
    """Return every ready schedule that is legal on this program, by name.

    as_written    no step
    local_fused   the all-reduce alone, then one kernel            (paper: AR-C)
    one_shot      every rank reads every gradient: one kernel, no second exchange
    split_fused   reduce-scatter, one kernel on pieces, gathers    (paper: RS-C-AG)
    fused         all of that in one kernel                  (paper: fuse(RS-C-AG))
    fused_sliced  fused, with `state` kept in pieces; None: every input that may be

    Raises ProgramError if a name of `state` is no input; TypeError.
    """
    makers = {
        "as_written": lambda: program.schedule().schedule,
        "local_fused": lambda: local_fused(program),
        "one_shot": lambda: one_shot(program),
        "split_fused": lambda: split_fused(program),
        "fused": lambda: fused(program),
        "fused_sliced": lambda: fused(program, state=_kept(program, state)),
    }
    found: dict[str, Schedule] = {}
    for name, make in makers.items():
        try:
            schedule = make()
        except ScheduleError:
            continue
        if name != "fused_sliced" or any(
            isinstance(step, SliceState) for step in schedule.steps
        ):
            found[name] = schedule
    return found


def local_fused(program: Program) -> Schedule:
    """Fuse all that follows the all-reduce; the all-reduce keeps its own kernel."""
    draft = program.schedule()
    draft.fuse(_following(program, _reduction(program)))
    return draft.schedule


def one_shot(program: Program) -> Schedule:
    """Fuse the all-reduce with what follows: each rank combines everything itself."""
    draft = program.schedule()
    reduction = _reduction(program)
    draft.fuse(reduction, _following(program, reduction))
    return draft.schedule


def split_fused(program: Program, *, by: Cut = FLAT) -> Schedule:
    """Compute on pieces in one kernel, between a reduce-scatter and gathers."""
    draft = program.schedule()
    _, region, _ = _reordered(draft, by)
    draft.fuse(region)
    return draft.schedule


def fused(program: Program, *, by: Cut = FLAT, state: Sequence[str] = ()) -> Schedule:
    """Reduce-scatter, compute and gather in one kernel: a FusedAllReduce.

    state names inputs that each rank keeps in pieces from then on.
    """
    draft = program.schedule()
    part, region, tail = _reordered(draft, by)
    draft.slice_state(*state)
    draft.dead(*_dead_gathers(draft.program))
    draft.fuse(part, region, tail)
    return draft.schedule


def _reduction(program: Program) -> Value:
    found = list(program.values_of(AllReduce))
    if len(found) != 1:
        raise ScheduleError(
            "this schedule is for programs with one all-reduce",
            got=f"{len(found)} in {program.name!r}",
            need="one",
        )
    return found[0]


def _following(program: Program, reduction: Value) -> tuple[Value, ...]:
    """Return the all-reduce's consequences, and what only they read."""
    after = descendants(program, reduction)
    if not after:
        raise ScheduleError(
            "this schedule computes after the all-reduce",
            got=f"nothing reads {said(reduction)!r}",
            need="a computation",
        )
    wanted = set(after)
    for value in reversed(program.values):
        users = set(program.users(value))
        if value is not reduction and users and users <= wanted:
            wanted.add(value)
    return tuple(value for value in program.values if value in wanted)


def _reordered(
    draft: Draft, by: Cut
) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]:
    program = draft.program
    reduction = _reduction(program)
    after = descendants(program, reduction)
    outs = [v for v in program.values if v in after and _is_end(program, v)]
    part, whole = draft.split(reduction, by)
    if not outs:
        return part, (), (whole,)
    region, tail = draft.reorder(whole, outs)
    return part, region, tail


def _is_end(program: Program, value: Value) -> bool:
    return value in program.outputs or value in program.effects


def _kept(program: Program, state: Sequence[str] | None) -> tuple[str, ...]:
    """Return the inputs to keep in pieces: these, or all that may be."""
    if isinstance(state, str):
        raise TypeError(f"state is a list of names, got {state!r}")
    if state is not None:
        return tuple(program[name].name for name in state)
    draft = program.schedule()
    _reordered(draft, FLAT)
    return tuple(step.target for step in SliceState.candidates(draft.program))


def _dead_gathers(program: Program) -> tuple[str, ...]:
    gathers = program.values_of(AllGather)
    return tuple(value.name for value in gathers if not program.is_live(value))

"""Random schedules of a program: from guesses, from the library, from the tuner."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import coconet as cc
from coconet.errors import ScheduleError
from coconet.ops import AllGather, AllReduce, Update
from coconet.schedule import (
    Dead,
    Draft,
    Fuse,
    Reorder,
    Schedule,
    SliceState,
    Split,
    Transform,
)
from coconet.tuning.search import search

_PHASES = (
    (*[Split] * 8, Fuse),
    (*[Reorder] * 5, Split, Dead),
    (*[SliceState] * 3, *[Reorder] * 3, Dead),
    (Fuse, Fuse, Fuse, Dead, SliceState),
)
"""Kinds of steps as schedules go, so that the later ones have something to do."""


SEARCHED = 25
"""Programs of more values may take the tuner's search seconds."""


def random_schedule(rng: np.random.Generator, program: cc.Program) -> Schedule:
    """Return a schedule: of legal steps, ready, or one that the tuner would time."""
    way = rng.random()
    if way < 0.6:
        return _stepwise(rng, program)
    if way < 0.75 or len(program.values) > SEARCHED:
        found = tuple(cc.library(program).values())
    else:
        found = search(program, limit=12, region_limit=16).schedules
    return found[int(rng.integers(len(found)))]


def _stepwise(rng: np.random.Generator, program: cc.Program) -> Schedule:
    """Return a schedule of legal steps, from offers and from guesses."""
    draft = program.schedule()
    for phase in _PHASES:
        for _ in range(int(rng.integers(0, 6))):
            kind = phase[int(rng.integers(len(phase)))]
            offers = list(kind.candidates(draft.program))
            if offers and rng.random() < 0.7:
                draft.step(offers[int(rng.integers(len(offers)))])
                continue
            with contextlib.suppress(ScheduleError):
                if rng.random() < 0.15:
                    _by_old_handles(rng, draft, program)
                else:
                    draft.step(_guess(rng, draft.program, kind))
    return draft.schedule


def _some(rng: np.random.Generator, items: Sequence[Any], most: int) -> list[Any]:
    count = int(rng.integers(0, min(len(items), most) + 1))
    return [items[int(i)] for i in rng.permutation(len(items))[:count]]


def _by_old_handles(
    rng: np.random.Generator, draft: Draft, program: cc.Program
) -> None:
    """Apply a verb to values of the program as it was before any step."""
    values = (*program.inputs, *program.values)
    some = _some(rng, values, 5)
    verbs: list[Callable[[], object]] = [
        lambda: draft.fuse(*some),
        lambda: draft.fuse(some, draft.program.fusions),
        lambda: draft.reorder(some[:1], some[1:]),
        lambda: draft.split(some[:1]),
        lambda: draft.dead(some[:2]),
        lambda: draft.slice_state(*some[:1]),
    ]
    verbs[int(rng.integers(len(verbs)))]()


def _guess(
    rng: np.random.Generator, program: cc.Program, kind: type[Transform]
) -> Transform:
    """Return a step that may be illegal."""

    def one(items: Sequence[Any]) -> Any:
        return items[int(rng.integers(len(items)))]

    values = [v for v in program.values if not v.type.is_scalar]
    if kind is Split:
        reductions = list(program.values_of(AllReduce)) or values
        cuts = (cc.FLAT, cc.FLAT, 0, 1, cc.ROWS(1), cc.ROWS(2), -1)
        return Split(one(reductions).name, one(cuts))
    if kind is Reorder:
        gather = one(list(program.values_of(AllGather)) or values)
        after = [v for v in values if _needs(v, gather)] or values
        outs = _some(rng, after, 6)
        if rng.random() < 0.7:
            ends = program.effects + program.outputs
            outs = [v for v in after if v in ends or not program.users(v)]
        return Reorder(gather.name, tuple(v.name for v in outs))
    if kind is not Fuse:
        return kind(one((*program.inputs, *program.values)).name)
    gathers = list(program.values_of(AllGather))
    if gathers and rng.random() < 0.5:
        # what writes the caller's memory on every rank
        gather = one(gathers)
        takers = [u for u in program.users(gather) if isinstance(u.op, Update)]
        return Fuse(tuple(v.name for v in (gather, *takers)))
    if rng.random() < 0.7:
        return Fuse(_grown(rng, program, values))
    start = int(rng.integers(len(values)))
    window = values[start : start + int(rng.integers(1, 9))]
    return Fuse(tuple(v.name for v in window if rng.random() < 0.85))


def _needs(value: Any, source: Any) -> bool:
    stack = [value]
    while stack:
        found = stack.pop()
        if found is source:
            return value is not source
        stack += found.inputs
    return False


def _grown(
    rng: np.random.Generator, program: cc.Program, values: Sequence[Any]
) -> tuple[str, ...]:
    """Return neighbours in the graph, added as long as they may share a kernel."""
    grown = [values[int(rng.integers(len(values)))]]
    for _ in range(12):
        seed = grown[int(rng.integers(len(grown)))]
        near = [v for v in (*seed.inputs, *program.users(seed)) if v in values]
        if not near:
            break
        added = near[int(rng.integers(len(near)))]
        fusion = program.fusion_of(added)
        wanted = [*grown, *(fusion.members if fusion else (added,))]
        names = tuple(v.name for v in dict.fromkeys(wanted))
        with contextlib.suppress(ScheduleError):
            Fuse(names).check(program)
            grown = list(dict.fromkeys(wanted))
    return tuple(v.name for v in grown)

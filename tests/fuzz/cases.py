"""Random programs, legal schedules of them, arguments, and the bits that must come out.

A case is drawn from one seed, the same on every rank and in every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from fuzz_programs import random_program
from fuzz_schedules import random_schedule

import coconet as cc
from coconet.backends.c import compile_plan
from coconet.backends.c.words import Knobs
from coconet.errors import CoconetError, InternalError
from coconet.interp import first_difference, run_plan, run_program
from coconet.interp.inputs import random_whole
from coconet.ir import Cut, bind_shape
from coconet.lower import lower
from coconet.ops import take_piece
from coconet.plan import Plan
from coconet.plan.verify import verify_plan
from coconet.schedule import Schedule

Sizes = dict[str, int]
Arguments = dict[str, Any]
Results = dict[str, tuple[Any, ...]]

EXTENTS = (0, 1, 1, 2, 3, 5, 7, 13, 31, 64, 67, 197)
LARGE = EXTENTS[6:]
"""So many that ranks have more than one leaf of a reduction."""


@dataclass
class Case:
    """A program and a schedule of it, for so many ranks and at these sizes."""

    seed: int
    ranks: int
    program: cc.Program
    schedule: Schedule
    sizes: list[Sizes]

    def __str__(self) -> str:
        """Return everything that tells the case."""
        parts = [f"seed {self.seed}, {self.ranks} ranks", self.program, self.schedule]
        return "\n".join(map(str, [*parts, self.schedule.result]))


def draw(seed: int, *, ranks: int | None = None) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    program = random_program(rng, f"fuzz_{seed}")
    count = ranks or int(rng.integers(1, 5))
    schedule = random_schedule(rng, program)
    sizes = [_sizes(rng, program, extents) for extents in (EXTENTS, LARGE)]
    return Case(seed, count, program, schedule, sizes)


def _sizes(
    rng: np.random.Generator, program: cc.Program, extents: Sequence[int]
) -> Sizes:
    """Return numbers for the dims, none of them so large that a tensor is."""
    sizes = {dim.name: int(rng.choice(extents)) for dim in program.dims}
    values = (*program.inputs, *program.values)
    while any(_numel(value, sizes) > 4000 for value in values):
        sizes[max(sizes, key=sizes.__getitem__)] //= 2
    return sizes


def _numel(value: Any, sizes: Sizes) -> int:
    return prod(bind_shape(value.type.shape, sizes))


def arguments_of(case: Case, sizes: Sizes, seed: int) -> Arguments:
    """Return what every rank passes to the program as written, hard values among it.

    One NaN is soon the whole of a reduction, so most calls have none.
    """
    made: Arguments = {}
    is_finite = np.random.default_rng(seed).random() < 0.7
    for value in case.program.inputs:
        key = [seed, *value.name.encode()]
        rng = np.random.default_rng(key)
        if value.type.is_scalar:
            real = float(rng.uniform(-1.5, 1.5)), int(rng.integers(-3, 10))
            made[value.name] = real[0 if value.type.dtype.is_float else 1]
            continue
        shape = bind_shape(value.type.shape, sizes)
        layout = value.type.layout
        many = case.ranks if isinstance(layout, cc.Local) else 1
        keys = [[*key, rank] for rank in range(many)]
        wholes = [_hard(value.type, shape, k, is_finite=is_finite) for k in keys]
        if isinstance(layout, cc.Sliced):
            made[value.name] = _pieces(wholes * case.ranks, layout.cut)
        else:
            made[value.name] = (wholes * case.ranks)[: case.ranks]
    return made


def _hard(
    type_: Any, shape: tuple[int, ...], key: list[int], *, is_finite: bool
) -> Any:
    whole = random_whole(type_, shape, key)
    rng = np.random.default_rng([*key, 1])
    flat = whole.reshape(-1)
    if not flat.size:
        return whole
    if type_.dtype.is_float:
        hard = np.array([0.0, -0.0, 1e-42, 1.0, -1.0, np.inf, -np.inf, np.nan])
        hard = hard[:5] if is_finite else hard
    elif type_.dtype.kind == "bool":
        return whole
    else:
        limits = np.iinfo(whole.dtype)
        hard = np.array([limits.min, limits.max, 0, 1], whole.dtype)
    where = rng.integers(flat.size, size=max(1, flat.size // 8))
    with np.errstate(all="ignore"):
        flat[where] = rng.choice(hard, size=where.size).astype(whole.dtype)
    return whole


def _pieces(wholes: Sequence[Any], cut: Cut) -> list[Any]:
    count = len(wholes)
    return [take_piece(whole, cut, i, count).copy() for i, whole in enumerate(wholes)]


def held(case: Case, results: Arguments) -> Arguments:
    """Return arguments or results as the schedule keeps them, some in pieces."""
    made = dict(results)
    for value in case.schedule.result.tensors:
        layout = value.type.layout
        if value.name in made and layout != case.program[value.name].type.layout:
            made[value.name] = _pieces(made[value.name], layout.cut)
    return made


def meaning(case: Case, sizes: Sizes, given: Arguments) -> Results:
    """Return what the program as written gives, as the schedule keeps it."""
    found = run_program(case.program, case.ranks, sizes, given)
    return held(case, found.outputs) | held(case, found.effects)


def differences(case: Case, *, interleavings: int = 1) -> Iterator[str]:
    """Yield what is wrong with a case on simulated ranks."""
    written, result = case.program, case.schedule.result
    plans = {
        "plan as written": (written, lower(written, case.ranks)),
        "plan as scheduled": (result, lower(result, case.ranks)),
    }
    yield from _irreproducible(case, plans["plan as scheduled"][1])
    for name, (_, plan) in plans.items():
        try:
            verify_plan(plan)
        except InternalError as error:
            yield f"{name} is not proved: {error}\n{plan}"
    for number, sizes in enumerate(case.sizes):
        given = arguments_of(case, sizes, case.seed + number)
        need = meaning(case, sizes, given)
        runs = {"scheduled": run_program(result, case.ranks, sizes, held(case, given))}
        for name, (program, plan) in plans.items():
            passed = given if program is written else held(case, given)
            for seed in range(interleavings):
                got = run_plan(plan, sizes, passed, seed=seed)
                if program is written:
                    got = replace(got, effects=held(case, got.effects))
                runs[f"{name}, interleaving {seed}"] = got
        for name, got in runs.items():
            if list(got.outputs) != [v.name for v in written.outputs]:
                yield f"{name}: outputs {list(got.outputs)}"
            found = first_difference(got.outputs | got.effects, need)
            if found is not None:
                yield f"{name} at {sizes}: {found}"


def _irreproducible(case: Case, plan: Plan) -> Iterator[str]:
    """Yield what differs when a schedule is made again, and texts out of order."""
    schedule = case.schedule
    known: set[str] = set()
    names = {v.name for v in (*schedule.result.inputs, *schedule.result.values)}
    for line in str(schedule.result).splitlines():
        name, _, read = line.split("#")[0].partition(" = ")
        early = (names & set(re.findall(r"\b[a-zA-Z_]\w*", read))) - known
        if early:
            yield f"{name} is printed before {early}"
        known.add(name.split()[0])
    again = {
        "replayed": Schedule.replay(case.program, schedule.steps),
        "read from its text": cc.parse_schedule(case.program, str(schedule)),
        "read from JSON": Schedule.from_json(case.program, schedule.to_json()),
    }
    for how, other in again.items():
        if other != schedule or str(other) != str(schedule):
            yield f"the schedule {how} is another one"
        if str(other.result) != str(schedule.result):
            yield f"{how}, the program is\n{other.result}"
    if str(lower(again["replayed"].result, case.ranks)) != str(plan):
        yield "replayed, the plan is another one"
    for program in (case.program, schedule.result):
        if not cc.same_program(cc.parse_program(str(program)), program):
            yield f"read from its text, this is another program\n{program}"


def check_compiled(seeds: list[int]) -> list[str]:
    """Run on one rank: every case compiled to C, called twice; say what is wrong.

    Threads, blocks and stores past the caches are drawn too.
    """
    world = cc.init()
    wrong: list[str] = []
    for seed in seeds:
        case = draw(seed, ranks=world.size)
        try:
            plan = lower(case.schedule.result, world.size)
            step = compile_plan(plan, world, knobs=_knobs(seed))
            for number, sizes in enumerate(case.sizes):
                found = _compiled_difference(world, step, case, sizes, number)
                if found:
                    wrong.append(f"rank {world.rank} at {sizes}: {found}\n{case}")
        except CoconetError as error:
            wrong.append(f"rank {world.rank}: {error}\n{case}")
    return wrong


def _knobs(seed: int) -> Knobs:
    rng = np.random.default_rng(seed)
    return Knobs(
        threads=int(rng.choice((1, 2, 3))),
        block_elements=int(rng.choice((1, 64, 100, 2048))),
        stream_bytes=int(rng.choice((0, 1 << 20))),
        round_elements=int(rng.choice((1, 16, 100, 1 << 14))),
        inbox_bytes=int(rng.choice((0, 1 << 16))),
    )


def _compiled_difference(
    world: Any, step: Any, case: Case, sizes: Sizes, number: int
) -> str:
    """Call one step twice, with tensors in every kind of memory."""
    result = case.schedule.result
    calls = [arguments_of(case, sizes, case.seed + 10 * c + number) for c in range(2)]
    first = case.seed + number + (world.rank if case.seed % 2 else 0)
    tensors = {
        value.name: _place(world, held(case, calls[0])[value.name][world.rank], place)
        for place, value in enumerate(result.tensors, start=first)
    }
    bound = step.bind(sizes=sizes, **tensors)
    for call, given in enumerate(calls):
        for name, array in tensors.items():
            array[...] = held(case, given)[name][world.rank]
        returned = bound(**{v.name: given[v.name] for v in result.scalars})
        need = {n: (a[world.rank],) for n, a in meaning(case, sizes, given).items()}
        names = [value.name for value in result.outputs]
        outputs = (returned,) if len(names) == 1 else returned or ()
        got = {n: (a,) for n, a in zip(names, outputs, strict=True)}
        updated = [value.inputs[0].name for value in result.effects]
        got |= {name: (tensors[name].copy(),) for name in updated}
        found = first_difference(got, need)
        if found is not None:
            return f"call {call + 1}: {found}"
    return ""


def _place(world: Any, like: Any, place: int) -> Any:
    """Return memory for an array: symmetric, private, or private with strides."""
    if place % 3 == 0:
        return world.pool.empty(like.shape, like.dtype)
    if place % 3 == 1:
        return np.empty_like(like)
    return np.empty((*like.shape, 2), like.dtype)[..., 0]

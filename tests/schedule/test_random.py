"""Random programs, random legal steps: every bit stays, as program and as plan."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import coconet as cc
from coconet.errors import ProgramError, ScheduleError
from coconet.ops import AllGather
from coconet.schedule import TRANSFORMS, Fuse, Reorder, SliceState

DP = cc.Group("dp")
B, H = cc.dims("B H")
SIZES = [{"B": 1, "H": 1}, {"B": 5, "H": 3}, {"B": 3, "H": 65}, {"B": 0, "H": 4}]
LAYOUTS = [
    cc.Replicated(),
    cc.Local(),
    cc.Sliced(cc.FLAT),
    cc.Sliced(0),
    cc.Sliced(cc.ROWS(1)),
]
SHAPES = [(B, H), (B, H), (H,), (B, 1), (1, H)]


def random_inputs(rng):
    made = [
        cc.tensor("g", cc.f32, (B, H), cc.Local(), DP),
        cc.tensor("p", cc.f32, (B, H), cc.Replicated(), DP),
        cc.tensor("m", cc.f32, (B, H), cc.Replicated(), DP),
    ]
    for number in range(int(rng.integers(0, 3))):
        shape = SHAPES[rng.integers(len(SHAPES))]
        layout = LAYOUTS[rng.integers(len(LAYOUTS))]
        try:
            made.append(cc.tensor(f"x{number}", cc.f32, shape, layout, DP))
        except ProgramError:
            continue
    return made


def random_value(rng, values, scalar):
    """Try one op on values there are; later ones are likelier."""

    def pick():
        return values[min(rng.integers(len(values), size=2).max(), len(values) - 1)]

    match rng.integers(9):
        case 0 | 1 | 2:
            return cc.all_reduce(pick(), ["sum", "mean", "max"][rng.integers(3)])
        case 3:
            return cc.all_gather(pick())
        case 4:
            return pick() * scalar
        case 5:
            return cc.where(pick() > 0.0, pick(), 0.5)
        case 6:
            return -pick()
        case _:
            x, y = pick(), pick()
            return [x + y, x - y, x * y][rng.integers(3)]


def random_program(seed):
    """Return a program of about ten values, some updates among its results."""
    rng = np.random.default_rng(seed)
    inputs, scalar = random_inputs(rng), cc.scalar("s")
    values, results, updated = list(inputs), [], set()
    for _ in range(int(rng.integers(4, 14))):
        try:
            value = random_value(rng, values, scalar)
            if rng.random() < 0.3:
                target = inputs[rng.integers(len(inputs))]
                if target not in updated:
                    value = cc.update(target, value)
                    updated.add(target)
                    results.append(value)
        except ProgramError:
            continue
        values.append(value)
    computed = values[len(inputs) :] or [cc.all_reduce(inputs[0])]
    results += [v for v in computed[-3:] if v not in results]
    return rng, traced(f"random_{seed}", inputs, results)


def traced(name, inputs, results):
    read = set()
    stack = [result.value for result in results]
    while stack:
        value = stack.pop()
        if value not in read:
            read.add(value)
            stack += value.inputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        used = [x for x in inputs if x.value in read]
        return cc.program(name, inputs=used, outputs=results)


def guessed_step(rng, program):
    """Return a step that may be illegal: some kernel, some region, or an input."""
    names = [v.name for v in program.values if not v.type.is_scalar]
    some = rng.permutation(names)[: rng.integers(1, 5)]
    chosen = tuple(str(name) for name in some)
    gathers = [v.name for v in program.values_of(AllGather)] or ["none"]
    match rng.integers(4):
        case 0:
            return Reorder(gathers[rng.integers(len(gathers))], chosen)
        case 1:
            return SliceState(program.inputs[rng.integers(len(program.inputs))].name)
        case _:
            return Fuse(chosen)


def random_steps(rng, program):
    """Return a draft after up to eight steps, guessed or offered by `candidates`."""
    draft = program.schedule()
    for _ in range(int(rng.integers(1, 9))):
        steps = [s for kind in TRANSFORMS for s in kind.candidates(draft.program)]
        if steps and rng.random() < 0.5:
            draft.step(steps[rng.integers(len(steps))])
            continue
        with contextlib.suppress(ScheduleError):
            draft.step(guessed_step(rng, draft.program))
    return draft


@pytest.mark.parametrize("seed", range(150))
def test_bits_stay(seed, schedule_difference, plan_difference):
    rng, program = random_program(seed)
    draft = random_steps(rng, program)
    ranks = int(rng.integers(1, 5))
    for sizes in SIZES:
        difference = schedule_difference(
            program, draft.program, ranks, sizes, seed=seed
        )
        assert difference is None, f"{difference}\n{draft.schedule}\n{draft}"
        difference = plan_difference(draft.program, ranks, sizes, seed=seed)
        assert difference is None, f"{difference}\n{draft.schedule}\n{draft}"


@pytest.mark.parametrize("seed", range(0, 150, 10))
def test_every_candidate_is_legal_and_keeps_the_bits(seed, schedule_difference):
    rng, program = random_program(seed)
    draft = random_steps(rng, program)
    before = draft.program
    for kind in TRANSFORMS:
        for step in kind.candidates(before):
            draft.step(step)
            after = draft.program
            assert (
                schedule_difference(program, after, 3, SIZES[1], seed=seed) is None
            ), f"{step}\n{before}"
            draft.undo()
            assert draft.program is before

"""Plans with one mistake are noticed by the interpreter, in one of 200 interleavings.

What the proof must find, and what no run can show: see FOUND_BY in plan_mutants.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_mutants import FOUND_BY, PROGRAMS, RUN, SIZES, bound, mutants

from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.lower import lower
from coconet.plan import (
    OWN,
    Apply,
    Index,
    Load,
    Register,
    Role,
    Space,
    Store,
    Tile,
)

SEEDS = 200


def used_by_caller(buffer, kept):
    """What the caller does to a tensor between two calls: keep it, then negate it."""
    index = Index.GLOBAL if buffer.cut is None else Index.PIECE
    old, new = Register(0, buffer.dtype), Register(1, buffer.dtype)
    body = (
        Load(old, buffer.name, OWN, index),
        Apply(new, "neg", (old,)),
        Store(kept.name, OWN, index, old),
        Store(buffer.name, OWN, index, new),
    )
    return Tile(f"the caller uses {buffer.name}", buffer.shape, buffer.cut, body)


def two_calls(plan, *, is_shared_first):
    """A plan that runs another one twice, the caller using all tensors in between."""
    tensors = [buffer for buffer in plan.buffers if buffer.role is not Role.SCRATCH]
    tensors.sort(key=lambda b: (b.space is Space.SYMMETRIC) != is_shared_first)
    kept = [
        replace(b, name=f"{b.name}.kept", role=Role.RESULT, space=Space.PRIVATE)
        for b in tensors
    ]
    between = map(used_by_caller, tensors, kept)
    return replace(
        plan,
        buffers=(*plan.buffers, *kept),
        body=(*plan.body, *between, *plan.body),
    )


def expected(program, ranks):
    """Arguments, and what two calls make of them by definition."""
    given = random_arguments(program, ranks, SIZES, 0)
    first = run_program(program, ranks, SIZES, given)
    tensors = {value.name: given[value.name] for value in program.tensors}
    tensors |= first.effects
    negated = {name: [-a for a in arrays] for name, arrays in tensors.items()}
    second = run_program(program, ranks, SIZES, given | negated)
    kept = {f"{name}.kept": a for name, a in (tensors | first.outputs).items()}
    return given, second.outputs | second.effects | kept


def difference(plan, given, need, seed):
    calls = two_calls(plan, is_shared_first=seed % 2 == 0)
    try:
        got = run_plan(calls, SIZES, given, seed=seed)
    except (IndexError, ValueError) as outside:
        return outside
    return first_difference(got.outputs | got.effects, need)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_interpreter_notices(program):
    plan = bound(lower(program, 2), SIZES)
    given, need = expected(program, 2)
    for seed in range(20):
        assert difference(plan, given, need, seed) is None
    for mutant in mutants(plan):
        finders = FOUND_BY[mutant.kind]
        if RUN in finders:
            found = any(difference(mutant.plan, given, need, s) for s in range(SEEDS))
            assert found, f"{mutant.kind} at {mutant.place} of\n{plan}"
        if not finders:
            for seed in range(20):
                assert difference(mutant.plan, given, need, seed) is None

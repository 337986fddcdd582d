"""A plan without one of its waits or fences is noticed by the interpreter.

Not by every run, but by one of two hundred interleavings.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import coconet as cc
from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.lower import lower
from coconet.plan import (
    OWN,
    Apply,
    Arrive,
    Barrier,
    FenceStores,
    Index,
    Load,
    Register,
    Space,
    Store,
    Tile,
)
from coconet.workloads.optimizers import adam, sgd

DP = cc.Group("dp")
(N,) = cc.dims("N")
SIZES = {"N": 300}
SEEDS = 200


def fused(program):
    return cc.library(program)["fused"].result


def relayed():
    """Two exchanges, each of what the one before made, and an update of an input."""
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), DP)
    p = cc.tensor("p", cc.f32, (N,), cc.Replicated(), DP)
    first = cc.all_reduce(g * 2.0)
    second = cc.all_reduce(first * g)
    p1 = cc.update(p, p - second)
    return cc.program("relayed", inputs=[g, p], outputs=[p1, cc.all_reduce(p1 * g)])


PROGRAMS = {
    "sgd": sgd,
    "sgd_fused": fused(sgd),
    "adam": adam,
    "adam_fused": fused(adam),
    "adam_split": cc.library(adam)["split_fused"].result,
    "relayed": relayed(),
}


CALLER = Tile(
    "what the caller does to its gradient between two calls",
    (N,),
    None,
    (
        Load(Register(0, cc.f32), "g", OWN, Index.GLOBAL),
        Apply(Register(1, cc.f32), "neg", (Register(0, cc.f32),)),
        Store("g", OWN, Index.GLOBAL, Register(1, cc.f32)),
    ),
)


def without(body, place):
    return body[:place] + body[place + 1 :]


def shows_in_one_call(body, place):
    """The first and the last wait are for the calls before and after."""
    is_last_wait = place == len(body) - 1 and isinstance(body[place], Barrier)
    return not isinstance(body[place], Arrive) and not is_last_wait


def mutants(*, one_call):
    """Places of barriers, fences and arrivals, in plans of two ranks."""
    for name, program in PROGRAMS.items():
        plan = lower(program, 2)
        # between calls only a gradient that peers read can show it
        if not one_call and plan.buffer("g").space is not Space.SYMMETRIC:
            continue
        for place, instruction in enumerate(plan.body):
            is_order = isinstance(instruction, Barrier | FenceStores | Arrive)
            if is_order and shows_in_one_call(plan.body, place) == one_call:
                kind = type(instruction).__name__
                yield pytest.param(program, place, id=f"{name}-{place}-{kind}")


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_whole_plan_is_right(program, plan_difference):
    for seed in range(20):
        assert plan_difference(program, 2, SIZES, seed=seed) is None


@pytest.mark.parametrize(("program", "place"), list(mutants(one_call=True)))
def test_a_wait_or_fence_left_out_is_noticed(program, place, plan_difference):
    plan = lower(program, 2)
    mutant = replace(plan, body=without(plan.body, place))
    assert any(
        plan_difference(program, 2, SIZES, seed=seed, plan=mutant) is not None
        for seed in range(SEEDS)
    )


def two_calls_differ(program, body, seed):
    """Run two calls, the caller writing in between; compare with the definition."""
    plan = replace(lower(program, 2), body=body)
    given = random_arguments(program, 2, SIZES, seed)
    got = run_plan(plan, SIZES, given, seed=seed)
    first = run_program(program, 2, SIZES, given)
    then = given | first.effects | {"g": [-array for array in given["g"]]}
    need = run_program(program, 2, SIZES, then)
    assert got.effects.keys() == need.effects.keys()
    return first_difference(got.effects | got.outputs, need.effects | need.outputs)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_two_calls_are_right(program):
    body = lower(program, 2).body
    for seed in range(20):
        assert two_calls_differ(program, (*body, CALLER, *body), seed) is None


@pytest.mark.parametrize(("program", "place"), list(mutants(one_call=False)))
def test_a_first_or_last_wait_left_out_is_noticed_between_calls(program, place):
    body = lower(program, 2).body
    if isinstance(body[place], Arrive):
        calls = (*body, CALLER, *without(body, place))
    else:
        calls = (*without(body, place), CALLER, *body)
    assert any(two_calls_differ(program, calls, seed) for seed in range(SEEDS))

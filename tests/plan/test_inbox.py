"""Inboxes: which plans can use them, and that two are needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_programs import M, N, program, tensor

import coconet as cc
from coconet.errors import InternalError
from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.lower import lower
from coconet.plan import OWN, Apply, Index, Load, Register, Store, Tile, inboxed
from coconet.plan.verify import verify_plan
from coconet.workloads.optimizers import ADAM_STATE, adam, sgd

CALLS = 4
SIZES = {"N": 130}


def of(source, ranks=2):
    return inboxed(lower(source, ranks))


def test_what_goes_by_inboxes():
    schedules = {n: s.result for n, s in cc.library(adam, state=ADAM_STATE).items()}
    assert of(schedules["one_shot"]) == ("g",)
    g, h = tensor("g", cc.Local()), tensor("h", cc.Local())
    sums = cc.all_reduce(g), cc.all_reduce(h)
    signs = -sums[0], -sums[1]
    both = program(*signs, inputs=[g, h]).schedule()
    for total, sign in zip(sums, signs, strict=True):
        both.fuse(total, sign)
    assert of(both.program) == ("g", "h")


def test_what_does_not():
    schedules = {n: s.result for n, s in cc.library(adam, state=ADAM_STATE).items()}
    assert not of(schedules["fused"]), "peers write"
    assert not of(schedules["local_fused"]), "peers write the sum"
    g, p = tensor("g", cc.Local()), tensor("p", cc.Local())
    summed = cc.all_reduce(cc.update(p, p + g))
    assert not of(program(summed, inputs=[g, p])), "peers read what is made in the call"
    x = tensor("x", cc.Sliced(cc.FLAT), (M, N))
    assert not of(program(cc.sum_(x), inputs=[x])), "peers read folds"


@pytest.mark.parametrize("inboxes", [1, 2, 3])
def test_two_inboxes_are_needed_and_enough(monkeypatch, inboxes):
    monkeypatch.setattr("coconet.plan.verify.proof.INBOXES", inboxes)
    monkeypatch.setattr("coconet.interp.plan.INBOXES", inboxes)
    check(is_right=inboxes > 1)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_interleaving_of_some_calls(ranks):
    check(is_right=True, ranks=ranks)


def check(*, is_right, ranks=2):
    """The proof, and a run of 200, agree on whether inboxes are right."""
    plan = lower(cc.library(sgd)["one_shot"].result, ranks)
    if is_right:
        verify_plan(plan)
    else:
        with pytest.raises(InternalError, match="in any order"):
            verify_plan(plan)
    given = random_arguments(sgd, ranks, SIZES, 1)
    need = expected(given, ranks)
    calls = repeated(plan)
    seeds = range(40 if is_right else 200)
    runs = (run_plan(calls, SIZES, given, seed=seed).effects["p"] for seed in seeds)
    assert is_right != any(first_difference({"p": p}, {"p": need}) for p in runs)


def repeated(plan):
    """The plan, some times, with its caller negating g in between."""
    old, new = Register(0, cc.f32), Register(1, cc.f32)
    body = (
        Load(old, "g", OWN, Index.GLOBAL),
        Apply(new, "neg", (old,)),
        Store("g", OWN, Index.GLOBAL, new),
    )
    negate = Tile("the caller negates g", plan.buffer("g").shape, None, body)
    updated = plan.updated | {"g"}
    return replace(plan, updated=updated, body=(*plan.body, negate) * CALLS)


def expected(given, ranks):
    """What p is after these calls, by definition."""
    now = dict(given)
    for _ in range(CALLS):
        now["p"] = run_program(sgd, ranks, SIZES, now).effects["p"]
        now["g"] = [-g for g in now["g"]]
    return now["p"]

"""The estimate: bytes as counted by hand, seconds that order schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_programs import M, N, program, tensor

import coconet as cc
from coconet.ir import Work, bind_shape
from coconet.lower import lower
from coconet.ops import Reduce
from coconet.schedule.library import fused, local_fused, one_shot
from coconet.tuning.cost import Estimate, Machine, estimate, keep_best
from coconet.workloads.optimizers import ADAM_STATE, adam


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_fused_adam_moves_the_least(ranks):
    n = 1 << 16
    step = fused(adam, state=ADAM_STATE).result
    cost = estimate(step, ranks, {"N": n}, Machine())
    assert cost.memory_bytes == 8 * n + 20 * n / ranks
    assert cost.wire_bytes == 8 * n * (ranks - 1) / ranks


def test_a_plan_counts_like_its_program():
    result = fused(adam).result
    costs = {estimate(x, 3, {"N": 1000}) for x in (result, lower(result, 3))}
    assert len(costs) == 1


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_without_kernels_it_counts_the_work_of_each_op(ranks):
    g, b = tensor("g", cc.Local()), tensor("b")
    p = program(cc.relu(cc.all_reduce(g) + b) * 2.0, inputs=[g, b])
    sizes = {"N": 4096}
    work = Work()
    for value in p.values:
        if not value.type.is_scalar:
            types = [concrete(source.type, sizes) for source in value.inputs]
            work += value.op.work(ranks, *types)
    cost = estimate(p, ranks, sizes)
    assert cost.memory_bytes == work.memory_bytes
    assert cost.wire_bytes == work.wire_bytes


def concrete(type_, sizes):
    return replace(type_, shape=bind_shape(type_.shape, sizes))


def test_what_is_broadcast_is_read_once():
    x, row = tensor("x", shape=(M, N)), tensor("row")
    cost = estimate(program(x + row, inputs=[x, row]), 2, {"M": 10, "N": 100})
    assert cost.memory_bytes == 4 * (2 * 1000 + 100)
    assert cost.flops == 1000


def test_a_reduction_writes_its_folds():
    x = tensor("x", shape=(M, N))
    p = program(cc.sum_(x, dim=1), inputs=[x])
    assert list(p.values_of(Reduce))
    cost = estimate(p, 2, {"M": 10, "N": 100})
    assert 4 * 1010 <= cost.memory_bytes <= 4 * 1030
    assert cost.flops >= 1000


def test_large_calls_order_as_measured():
    sizes = {"N": 1 << 24}
    by_name = {
        "written": adam.schedule().schedule,
        "one_shot": one_shot(adam),
        "local_fused": local_fused(adam),
        "fused": fused(adam),
        "sliced": fused(adam, state=ADAM_STATE),
    }
    cost = {n: estimate(s.result, 8, sizes).seconds for n, s in by_name.items()}
    order = ["sliced", "fused", "local_fused", "one_shot", "written"]
    assert sorted(cost, key=cost.__getitem__) == order


def test_rates_and_waits_make_seconds():
    plan = lower(fused(adam).result, 2)
    sizes = {"N": 1 << 12}
    usual = estimate(plan, 2, sizes, Machine())
    waits = estimate(plan, 2, sizes, Machine(wait_s=1.0))
    uncached = estimate(plan, 2, sizes, Machine(cache_bytes=0))
    computing = estimate(plan, 2, sizes, Machine(flops_per_s=1.0))
    assert waits.seconds == pytest.approx(2.0, rel=1e-3)
    assert uncached.seconds > usual.seconds
    assert computing.seconds == pytest.approx(usual.flops, rel=1e-3)


def test_an_empty_call_costs_its_waits():
    cost = estimate(fused(adam).result, 2, {"N": 0}, Machine(wait_s=1.0))
    assert (cost.seconds, cost.memory_bytes, cost.flops) == (2.0, 0, 0)


def test_the_first_and_the_best_are_kept():
    costs = [9.0, 5.0, 1.0, 4.0, 2.0, 8.0, 7.0, 3.0]
    candidates = [(i, Estimate(s, 0, 0, 0)) for i, s in enumerate(costs)]
    assert [i for i, _ in keep_best(candidates)] == [0, 2, 4, 7, 3, 1]
    assert [i for i, _ in keep_best(candidates, most=1)] == [0]
    assert keep_best(candidates[:1]) == tuple(candidates[:1])

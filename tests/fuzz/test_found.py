"""What the fuzz found, made small."""

from __future__ import annotations

import pytest
from small_programs import M, N, names, program, tensor

import coconet as cc
from coconet.ops import AllReduce
from coconet.tuning.search import check, search


def test_the_only_element_of_a_vector(plan_difference):
    x = tensor("x", shape=(1,))
    p = program(cc.index(x, 0, 0), inputs=[x])
    assert plan_difference(p, 2, {}) is None


@pytest.mark.parametrize("dim", [0, 1])
def test_the_tuner_keeps_a_gather_out_of_the_loop_of_a_reduction(dim):
    x = tensor("x", cc.Sliced(1 - dim), (M, N))
    t = tensor("t", shape=((N, M)[dim],))
    p = program(cc.update(t, cc.all_gather(cc.sum_(x, dim))), inputs=[x, t])
    for schedule in search(p).schedules:
        check(schedule)


def test_an_output_that_reorder_makes_whole_keeps_its_name(schedule_difference):
    g, t = tensor("g", cc.Local()), tensor("t", shape=())
    outputs = [cc.sum_(cc.all_reduce(g))]  # without a name of its own
    outputs.append(cc.update(t, outputs[0]))
    p = program(*outputs, inputs=[g, t])
    draft = p.schedule()
    (total,) = p.values_of(AllReduce)
    _, whole = draft.split(total)
    draft.reorder(whole, [*p.outputs, *p.effects])
    assert names(draft.program.outputs) == names(p.outputs)
    assert schedule_difference(p, draft.program, 2, {"N": 130}) is None


def test_the_tuner_keeps_a_gather_out_of_the_loop_of_a_concat():
    x = tensor("x", cc.Sliced(0), (M, 2))
    p = program(cc.all_gather(cc.concat([x, x], 1)), inputs=[x])
    for schedule in search(p).schedules:
        check(schedule)

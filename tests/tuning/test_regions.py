"""Regions of element-wise values, and the maximal kernels made of them."""

from __future__ import annotations

from small_programs import M, N, names, program, tensor

import coconet as cc
from coconet.tuning.regions import Kernels, regions
from coconet.workloads.optimizers import adam


def found(program, limit=64):
    return [set(names(region)) for region in regions(program, limit)]


def kernels_of(program, limit=64):
    """The names in each kernel of two or more, for every maximal choice."""
    kernels = Kernels(program, regions(program, limit))
    return [
        [set(names(members)) for members in kernels.members(partition)]
        for partition in kernels.maximal()
    ]


def long_chain(length):
    x = tensor("x")
    value = x
    for _ in range(length):
        value = value * 2
    return program(value, inputs=[x])


def test_all_of_adam_is_one_region():
    everything = {v.name for v in adam.values if not v.type.is_scalar}
    assert found(adam) == [everything - {"avg"}, {"avg"}]
    assert kernels_of(adam) == [[everything]]


def test_on_pieces_slices_and_gathers_belong_to_the_region():
    draft = adam.schedule()
    part, whole = draft.split("avg")
    draft.reorder(whole, ["m1", "v1", "p1"])
    first, second = found(draft.program)
    assert first == {part.name}
    assert {"m_s", "v_s", "p_s", "m1_s", "m1_ag", "m1", "p1_ag", "p1"} <= second
    ((everything,),) = kernels_of(draft.program)
    assert everything == first | second


def test_a_gather_is_with_the_reduction_that_it_gathers():
    draft = adam.schedule()
    draft.split("avg")
    assert {"avg_rs", "avg"} in found(draft.program)
    x, t = tensor("x", cc.Sliced(cc.FLAT)), tensor("t")
    whole = cc.all_gather(x)
    t1 = cc.update(t, whole)
    y = t1 * 2
    assert found(program(t1, y, inputs=[x, t])) == [{"whole", "t1"}, {"y"}]


def test_values_on_both_sides_of_a_collective_are_two_regions():
    g, m = tensor("g", cc.Local()), tensor("m")
    before = g * 2
    total = cc.all_reduce(before)
    after = total + 1
    beside = m * 3
    y = after + beside
    z = y - before
    end = cc.all_reduce(z)
    made = found(program(end, inputs=[g, m]))
    assert made == [{"before"}, {"total"}, {"after", "beside", "y", "z"}, {"end"}]


def test_a_value_that_two_points_need_stands_before_both():
    g, h, m = tensor("g", cc.Local()), tensor("h", cc.Local()), tensor("m")
    shared = m + 1
    s = cc.all_reduce(g)
    a = shared * s
    b = shared * cc.all_reduce(h)
    made = found(program(a, b, inputs=[g, h, m]))
    assert {"shared"} in made
    assert {"a"} in made
    assert {"b"} in made


def test_other_elements_are_another_region():
    x, y = tensor("x"), tensor("y", shape=(M, N))
    a = x * 2
    b = a + y
    assert found(program(b, inputs=[x, y])) == [{"a"}, {"b"}]


def test_the_limit_cuts_regions_not_kernels():
    chain = long_chain(150)
    sizes = [len(region) for region in regions(chain, 64)]
    assert sizes == [64, 64, 22]
    assert len(regions(chain, 1)) == 150
    ((everything,),) = kernels_of(chain)
    assert len(everything) == 150


def test_kernels_share_a_tensor():
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    a = x * 2
    b = x + y
    c = z * 3
    p = program(a, b, c, inputs=[x, y, z])
    assert kernels_of(p) == [[{"a", "b"}, {"c"}]]


def test_kernels_do_not_wait_for_each_other():
    # a with d, or b with c: after one of the two, the other would close a circle
    x, y = tensor("x"), tensor("y")
    a = x * 2
    c = cc.reshape(a, (N,)) + y
    b = y * 3
    d = cc.reshape(b, (N,)) + x
    made = kernels_of(program(c, d, inputs=[x, y]))
    circle = [{"a", "d"}, {"b", "c"}]
    for kernels in made:
        joined = [any(pair <= kernel for kernel in kernels) for pair in circle]
        assert joined != [True, True]
    assert len(made) >= 2


def test_what_one_reduction_keeps_from_another():
    g, h = tensor("g", cc.Local()), tensor("h", cc.Local())
    s = cc.all_reduce(g)
    t = cc.all_reduce(h)
    y = s * t
    p = program(y, inputs=[g, h])
    made = kernels_of(p)
    assert sorted(made, key=str) == sorted(
        [[{"s", "y"}, {"t"}], [{"s"}, {"t", "y"}]], key=str
    )
    kernels = Kernels(p, regions(p, 64))
    partition = next(kernels.maximal())
    ((left, right, reason),) = kernels.refused(partition)
    assert {*names(left), *names(right)} == {"s", "t", "y"}
    assert "at most one reduction" in reason

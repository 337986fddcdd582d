"""Each step: legal and illegal cases, what it returns, what a refusal says."""

from __future__ import annotations

import pytest
from small_programs import M, N, names, program, reduced, refused, tensor

import coconet as cc
from coconet.errors import ScheduleError
from coconet.schedule import Dead, Fuse, Reorder, SliceState, Split
from coconet.workloads.optimizers import adam

# split


def test_split_returns_both_halves_and_forwards_the_handle():
    draft = adam.schedule()
    part, whole = draft.split("avg")
    assert (part.name, whole.name) == ("avg_rs", "avg")
    assert whole.inputs == (part,)
    assert whole is draft.program["avg"]
    assert draft.program["avg_rs"].made_by == "split"
    assert draft.program["avg_rs"].loc == adam["avg"].loc


@pytest.mark.parametrize("by", [cc.FLAT, 0, 1, cc.ROWS(1), cc.ROWS(2)], ids=str)
def test_split_by_every_cut(by, schedule_difference):
    g, m, _, s = reduced((N, M))
    p = program(s * m, inputs=[g, m])
    draft = p.schedule()
    part, _ = draft.split(s, by=by)
    assert part.type.layout == cc.Sliced(by)
    for ranks in (1, 2, 3):
        assert schedule_difference(p, draft.program, ranks, {"N": 5, "M": 3}) is None


def test_split_of_something_else():
    problem = refused(lambda: adam.schedule().split("m1"))
    assert "split(avg)" in problem.fix
    assert problem.at.startswith("optimizers.py:")
    x = tensor("x")
    y = x + 1.0
    problem = refused(lambda: program(y, inputs=[x]).schedule().split(y))
    assert "no all-reduce" in problem.fix


def test_split_by_a_dim_that_is_not_there():
    for by in (1, -1, cc.ROWS(2)):
        problem = refused(lambda by=by: adam.schedule().split("avg", by))
        assert problem.fix == "by=FLAT"


def test_split_of_a_kernels_member():
    draft = adam.schedule()
    draft.fuse("avg", "m1", "_1", "_4", "_5")
    assert "split before fuse" in refused(lambda: draft.split("avg")).fix
    assert list(Split.candidates(draft.program)) == []


def test_splits_offered():
    g, m, _, s = reduced((N, M))
    offered = list(Split.candidates(program(s * m, inputs=[g, m])))
    assert [step.by for step in offered] == [cc.FLAT, cc.ROWS(1), 0, 1]


# reorder


def test_reorder_returns_region_and_tail():
    draft = adam.schedule()
    _, gather = draft.split("avg")
    region, tail = draft.reorder(gather, ["m1", "v1", "p1"])
    assert names(tail) == ["m1_ag", "m1", "v1_ag", "v1", "p1_ag", "p1"]
    assert {"m_s", "v_s", "p_s", "m1_s", "v1_s", "p1_s", "root"} <= set(names(region))
    assert all(value in draft.program for value in (*region, *tail))
    assert "avg" not in names(draft.program.values)


def test_helpers_move_along():
    g, m, r, s = reduced()
    scaled = m * r
    y = s + scaled
    draft = program(y, inputs=[g, m, r]).schedule()
    _, gather = draft.split(s)
    region, _ = draft.reorder(gather, [y])
    assert names(region) == ["m_s", "r_s", "scaled", "y_s"]
    assert draft.program["scaled"].type.layout == cc.Sliced(cc.FLAT)


def test_a_helper_of_smaller_operands_is_sliced_after(schedule_difference):
    g, m, _, s = reduced((N, M))
    a, b = tensor("a", shape=(N, 1)), tensor("b", shape=(1, M))
    outer = a * b
    y = s * m + outer
    p = program(y, inputs=[g, m, a, b])
    draft = p.schedule()
    rs, gather = draft.split(s)
    region, tail = draft.reorder(gather, [y])
    assert "outer" not in names(region)
    assert "outer_s" in names(region)
    draft.fuse(rs, region, tail)
    assert schedule_difference(p, draft.program, 3, {"N": 13, "M": 7}) is None


def test_slices_of_unnamed_values_have_names_of_words():
    g, h = tensor("g", cc.Local()), tensor("h", cc.Local())
    s = cc.all_reduce(g)
    y = s * cc.all_reduce(h)
    draft = program(y, inputs=[g, h]).schedule()
    draft.reorder(draft.split(s)[1], [y])
    assert all(name.isidentifier() for name in names(draft.program.values))


def test_reorder_over_something_else():
    problem = refused(lambda: adam.schedule().reorder("avg", ["p1"]))
    assert "split an all-reduce first" in problem.fix
    draft = adam.schedule()
    draft.split("avg")
    problem = refused(lambda: draft.reorder("m1", ["p1"]))
    assert problem.fix == "one of avg"


def test_reorder_to_what_does_not_follow():
    g, m, r, s = reduced()
    y = s * m
    z = r * 2.0
    draft = program(y, z, inputs=[g, m, r]).schedule()
    _, gather = draft.split(s)
    problem = refused(lambda: draft.reorder(gather, [z]))
    assert "among y" in problem.fix
    assert problem.at.startswith("test_steps.py:")


def test_reorder_must_close_over_every_use():
    draft = adam.schedule()
    _, gather = draft.split("avg")
    problem = refused(lambda: draft.reorder(gather, ["m1"]))
    assert "also needed outside" in problem.what
    assert problem.fix.startswith("add ")


def test_a_returned_gather_does_not_move():
    g, m, _, s = reduced()
    y = s * m
    draft = program(s, y, inputs=[g, m]).schedule()
    _, gather = draft.split(s)
    problem = refused(lambda: draft.reorder(gather, [y]))
    assert "the program's outputs" in problem.what
    assert list(Reorder.candidates(draft.program)) == []


def test_only_element_wise_computation_moves():
    g, _, _, s = reduced()
    x = cc.slice_(s) * 2.0
    draft = program(cc.all_gather(x), inputs=[g]).schedule()
    _, gather = draft.split(s)
    assert "each element" in refused(lambda: draft.reorder(gather, [x])).what


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_local_operands_do_not_move():
    g, _, _, s = reduced()
    y = s * g
    draft = program(y, inputs=[g]).schedule()
    _, gather = draft.split(s)
    assert "'g'" in refused(lambda: draft.reorder(gather, [y])).what


def test_broadcast_along_the_cut_does_not_move(schedule_difference):
    g, r = tensor("g", cc.Local()), tensor("r", shape=(M, N))
    s = cc.all_reduce(g)
    y = r * s
    p = program(y, inputs=[g, r])
    draft = p.schedule()
    _, gather = draft.split(s)
    assert "on slices of" in refused(lambda: draft.reorder(gather, [y])).what
    draft = p.schedule()
    _, gather = draft.split(s, by=0)
    draft.reorder(gather, [y])
    assert draft.program["y_s"].type.layout == cc.Sliced(1)
    assert schedule_difference(p, draft.program, 3, {"N": 5, "M": 2}) is None
    one = tensor("h", cc.Local(), (1, M))
    s = cc.all_reduce(one)
    y = s * tensor("w", shape=(N, M))
    draft = program(y, inputs=[one, cc.Tensor(y.value.inputs[1])]).schedule()
    _, gather = draft.split(s, by=0)
    assert "on slices of" in refused(lambda: draft.reorder(gather, [y])).what


def test_reorder_does_not_tear_a_kernel():
    g, m, r, s = reduced()
    y = s * m
    z = r * 2.0
    draft = program(y, z, inputs=[g, m, r]).schedule()
    _, gather = draft.split(s)
    draft.fuse(y, z)
    assert "tear" in refused(lambda: draft.reorder(gather, [y])).what


def test_kernels_in_the_region_stay_kernels(schedule_difference, plan_difference):
    g, m, r, s = reduced()
    e = s + m
    f = e * 2.0
    m1 = cc.update(m, e)
    h = s * r
    p = program(m1, f, h, inputs=[g, m, r])
    draft = p.schedule()
    _, gather = draft.split(s)
    draft.fuse(e, f)
    draft.fuse(m1, h)
    draft.reorder(gather, [m1, f, h])
    kernels = [names(fusion.members) for fusion in draft.program.fusions]
    assert kernels == [["e", "f_s"], ["h_s"]]
    assert schedule_difference(p, draft.program, 3, {"N": 130}) is None
    assert plan_difference(draft.program, 3, {"N": 130}) is None


def test_the_widest_reorder_is_offered_even_where_not_all_can_move():
    g, m, r, s = reduced()
    y = s * m
    z = y + r
    w = cc.all_reduce(z * g)
    draft = program(w, inputs=[g, m, r]).schedule()
    _, whole = draft.split(s)
    # z * g is Local, and does not move
    assert list(Reorder.candidates(draft.program)) == [Reorder(whole.name, ("z",))]
    x = tensor("x")
    early = s * m
    late = early + cc.all_gather(cc.slice_(x))
    draft = program(early, late, inputs=[g, m, x]).schedule()
    _, whole = draft.split(s)
    offered = list(Reorder.candidates(draft.program))
    assert Reorder(whole.name, ("early", "late")) in offered


def test_no_reorder_is_offered_where_the_gather_is_needed():
    g, m, _, s = reduced()
    y = s * m
    draft = program(y, cc.all_reduce(s * g), inputs=[g, m]).schedule()
    draft.split(s)
    assert list(Reorder.candidates(draft.program)) == []


# slice_state


def ready_to_slice():
    draft = adam.schedule()
    _, gather = draft.split("avg")
    draft.reorder(gather, ["m1", "v1", "p1"])
    return draft


def test_slice_state_returns_the_inputs():
    draft = ready_to_slice()
    assert {step.target for step in SliceState.candidates(draft.program)} == {
        "m",
        "v",
        "p",
    }
    m, v = draft.slice_state("m", "v")
    assert m.type.layout == cc.Sliced(cc.FLAT)
    assert v is draft.program["v"]
    assert draft.program["m1"].type.layout == cc.Sliced(cc.FLAT)
    assert not draft.program.is_live(draft.program["m1_ag"])


@pytest.mark.parametrize("target", ["g", "m1_ag", "lr", "m1"])
def test_only_replicated_inputs_are_state(target):
    problem = refused(lambda: ready_to_slice().slice_state(target))
    assert "not one" in problem.what
    assert "m" in problem.fix


def test_state_needed_whole():
    with pytest.raises(ScheduleError, match="needed whole") as caught:
        adam.schedule().slice_state("m")
    assert "all_gather" in caught.value.need
    m, x = tensor("m"), tensor("x", cc.Sliced(cc.FLAT))
    m1 = cc.update(m, cc.all_gather(x + cc.slice_(m)))
    y = m1 * 2.0
    draft = program(y, inputs=[m, x]).schedule()
    assert "the whole of" in refused(lambda: draft.slice_state("m")).what
    q, r = tensor("q"), tensor("r")
    draft = program(cc.update(r, q), inputs=[q, r]).schedule()
    assert "needed whole" in refused(lambda: draft.slice_state("q")).what


def test_state_cut_in_two_ways():
    m = tensor("m")
    a, b = cc.slice_(m) * 2.0, cc.slice_(m, 0) * 3.0
    draft = program(a, b, inputs=[m]).schedule()
    problem = refused(lambda: draft.slice_state("m"))
    assert set(problem.got.split(" and ")) == {"FLAT", "0"}


def test_a_returned_slice_is_not_the_state():
    m = tensor("m")
    part = cc.slice_(m)
    draft = program(part, inputs=[m]).schedule()
    assert "is returned" in refused(lambda: draft.slice_state("m")).what


def test_a_fused_update_does_not_change_its_loop():
    m, r, x = tensor("m"), tensor("r"), tensor("x", cc.Sliced(cc.FLAT))
    whole = cc.all_gather(x + cc.slice_(m))
    m1 = cc.update(m, whole)
    q = r * 2.0
    draft = program(m1, q, inputs=[m, r, x]).schedule()
    draft.fuse(m1, q)
    assert "tear" in refused(lambda: draft.slice_state("m")).what
    draft.undo()
    draft.fuse(whole, m1)
    draft.slice_state("m")
    assert draft.program["m1"].type.layout == cc.Sliced(cc.FLAT)


# dead


def test_dead_drops_and_forgets():
    draft = ready_to_slice()
    draft.slice_state("m")
    gather = draft.program["m1_ag"]
    assert [step.target for step in Dead.candidates(draft.program)] == ["m1_ag"]
    draft.dead(gather)
    assert "m1_ag" not in names(draft.program.values)
    with pytest.raises(ScheduleError, match="one value"):
        draft.split(gather)


@pytest.mark.parametrize(
    ("target", "said"), [("avg", "used by"), ("p1", "input or output"), ("g", "used")]
)
def test_what_is_needed_is_not_dead(target, said):
    with pytest.raises(ScheduleError) as caught:
        adam.schedule().dead(target)
    assert said in caught.value.got
    assert caught.value.need
    assert caught.value.fix == "no step: all is needed"


@pytest.mark.parametrize(
    "step",
    [Split("no"), Reorder("no", ()), Fuse(("no",)), SliceState("no"), Dead("no")],
    ids=lambda step: step.name,
)
def test_steps_name_values_that_are_there(step):
    problem = refused(lambda: adam.schedule().step(step))
    assert problem.got == "no"
    assert step.name in problem.what

"""The search: exactly the space, each schedule legal, equal and possible to lower."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_files import load
from small_programs import N, program, tensor

import coconet as cc
from coconet.errors import GroupError, ScheduleError, VerificationError
from coconet.lower import lower
from coconet.schedule import Schedule, SliceState
from coconet.tuning.canonical import canonical
from coconet.tuning.search import check, search
from coconet.workloads.optimizers import ADAM_STATE, adam, sgd

HERE = Path(__file__).parent
brute_force = load(HERE / "brute_force.py")
searches = load(HERE / "small_searches.py")

PROGRAMS = [pytest.param(*case, id=name) for name, case in searches.SEARCHED.items()]


@pytest.mark.parametrize(("program", "count"), PROGRAMS)
def test_the_space_is_what_trying_everything_finds(program, count):
    found = search(program)
    signatures = {brute_force.signature(s.result) for s in found.schedules}
    assert signatures == brute_force.every_schedule(program)
    assert len(found.schedules) == count
    assert not found.was_capped
    assert found.explored >= count


@pytest.mark.parametrize("name", ["sgd", "alone", "epilogue", "gathered"])
def test_contraction_to_regions_loses_nothing_behind_one_collective(name):
    program, count = searches.SEARCHED[name]
    assert len(brute_force.every_schedule(program, contract=False)) == count


@pytest.mark.parametrize(("program", "count"), PROGRAMS)
def test_every_schedule_is_legal_equal_and_lowered(program, count):
    found = search(program)
    assert found.schedules[0] == program.schedule().schedule
    for schedule in found.schedules:
        again = Schedule.replay(program, schedule.steps)
        assert str(again.result) == str(schedule.result)
        lower(schedule.result, 3)
        check(schedule, seed=7)
    assert len({canonical(s.result) for s in found.schedules}) == count


def test_adam_has_the_papers_schedules():
    kernels = [
        [len(fusion.members) for fusion in schedule.result.fusions]
        for schedule in search(adam).schedules
    ]
    # as written; all in one; all in one, on pieces; the all-reduce, then the rest
    assert kernels == [[], [17], [23], [16, 2]]
    assert search(adam).regions == 1


def test_kept_in_pieces_by_every_schedule():
    found = search(adam, slice_state=ADAM_STATE)
    assert len(found.schedules) == 2
    assert not found.schedules[0].result.fusions
    for schedule in found.schedules:
        sliced = {s.target for s in schedule.steps if isinstance(s, SliceState)}
        assert sliced == {"m", "v"}
        assert all(schedule.result.is_live(v) for v in schedule.result.values)
        check(schedule)
    assert ("slice_state(m)", "'m' is needed whole by") in [
        (step, reason[:22]) for step, reason in found.refused
    ]


@pytest.mark.parametrize("name", ["g", "nothing"])
def test_what_cannot_be_kept_in_pieces(name):
    with pytest.raises(ScheduleError) as caught:
        search(sgd, slice_state=[name])
    assert caught.value.got == name
    assert f"slice_state({name})" in caught.value.fix


def test_a_cap_is_reported_and_keeps_the_widest_schedule():
    p = searches.many_parameters(4)
    found = search(p, limit=6)
    assert found.was_capped
    assert len(found.schedules) == 6
    widest = found.schedules[2].result
    assert not list(widest.values_of(cc.ops.AllReduce))
    assert [len(fusion.members) for fusion in widest.fusions] == [5, 5, 5, 5]


def test_what_was_refused_is_told():
    g, h = tensor("g", cc.Local()), tensor("h", cc.Local())
    s = cc.all_reduce(g)
    t = cc.all_reduce(h)
    y = s * t
    refused = dict(search(program(y, inputs=[g, h])).refused)
    assert refused["fuse(s, y | t)"] == (
        "a kernel holds at most one reduction over ranks"
    )
    assert "element alone" in refused["reorder(t)"]


def test_a_cut_by_a_dim_where_flat_moves_nothing():
    program, _ = searches.SEARCHED["broadcast"]
    cuts = {
        step.by
        for schedule in search(program).schedules
        for step in schedule.steps
        if step.name == "split"
    }
    assert cuts == {cc.FLAT, 0}


def test_rows_where_a_reduction_needs_them_whole():
    program, _ = searches.SEARCHED["centered"]
    widest = search(program).schedules[2]
    assert widest.steps[0].by == cc.ROWS(1)
    assert len(list(widest.result.values_of(cc.ops.AllGather))) == 1


def test_kernels_that_are_there_stay():
    draft = sgd.schedule()
    draft.fuse("avg", "_1")
    for schedule in search(draft.program).schedules:
        assert not list(schedule.result.values_of(cc.ops.ReduceScatter))
        assert schedule.result.fusion_of(schedule.result["_1"])


def test_two_groups_are_refused():
    x = tensor("x")
    y = cc.tensor("y", cc.f32, (N,), cc.Replicated(), cc.Group("tp"))
    with pytest.raises(GroupError, match="2 groups"):
        search(program(x + 1, y + 1, inputs=[x, y]))


@pytest.mark.parametrize("limit", [0, -1, True, 2.0, "64", None])
@pytest.mark.parametrize("option", ["limit", "region_limit"])
def test_limits_are_positive_integers(option, limit):
    with pytest.raises(ValueError, match=option):
        search(sgd, **{option: limit})


def test_check_finds_what_differs_in_few_bits():
    p, g = tensor("p"), tensor("g", cc.Local())
    y = p - cc.all_reduce(g)
    right = program(y, inputs=[g, p])
    y = p - cc.all_reduce(g) * 1.0000001
    wrong = program(y, inputs=[g, p])
    check(Schedule(right, (), right))
    with pytest.raises(VerificationError):
        check(Schedule(right, (), wrong))

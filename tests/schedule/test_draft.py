"""Drafts and schedules: handles, undo, replay, text; the paper's optimizers."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.errors import ScheduleError
from coconet.schedule import Schedule, Split
from coconet.workloads.optimizers import adam, sgd

DP = cc.Group("dp")
(N,) = cc.dims("N")
SIZES = [{"N": n} for n in (0, 1, 2, 63, 64, 65, 130, 1000)]


def scheduled(program, outs, state=()):
    """Split, reorder, slice the state, fuse all; return the draft after each step."""
    draft = program.schedule()
    states = [draft.program]
    part, whole = draft.split("avg")
    states.append(draft.program)
    region, tail = draft.reorder(whole, outs)
    states.append(draft.program)
    draft.slice_state(*state)
    states.append(draft.program)
    draft.dead(*(f"{name}1_ag" for name in state))
    states.append(draft.program)
    draft.fuse(part, region, tail)
    states.append(draft.program)
    return draft, states


OPTIMIZERS = [
    pytest.param(sgd, ["p1"], (), id="sgd"),
    pytest.param(adam, ["m1", "v1", "p1"], (), id="adam"),
    pytest.param(adam, ["m1", "v1", "p1"], ("m", "v"), id="adam-sliced"),
    pytest.param(adam, ["m1", "v1", "p1"], ("m", "v", "p"), id="adam-all-sliced"),
]


@pytest.mark.parametrize(("program", "outs", "state"), OPTIMIZERS)
def test_every_state_of_a_schedule_keeps_the_bits(
    program, outs, state, schedule_difference
):
    _, states = scheduled(program, outs, state)
    for number, after in enumerate(states):
        for ranks in (1, 2, 3, 4):
            sizes = SIZES[(number + ranks) % len(SIZES)]
            assert schedule_difference(program, after, ranks, sizes) is None
            assert schedule_difference(program, after, ranks, SIZES[-1]) is None


@pytest.mark.parametrize(("program", "outs", "state"), OPTIMIZERS)
def test_the_last_kernel_is_the_only_one(program, outs, state):
    draft, _ = scheduled(program, outs, state)
    (fusion,) = draft.program.fusions
    tensors = [v for v in draft.program.values if not v.type.is_scalar]
    assert list(fusion.members) == tensors


@pytest.mark.parametrize(("program", "outs", "state"), OPTIMIZERS)
def test_replay_gives_an_equal_program(program, outs, state):
    draft, _ = scheduled(program, outs, state)
    again = Schedule.replay(program, draft.schedule.steps)
    assert str(again.result) == str(draft.program)
    assert again == draft.schedule
    assert hash(again) == hash(draft.schedule)
    assert again != Schedule.replay(program, draft.schedule.steps[:-1])
    assert again != draft.schedule.steps


def test_replay_stops_at_an_illegal_step():
    steps = (Split("avg"), Split("avg"))
    with pytest.raises(ScheduleError):
        Schedule.replay(adam, steps)


def test_undo_takes_one_step_back():
    draft, states = scheduled(sgd, ["p1"])
    for before in reversed(states[:3]):
        draft.undo()
        assert draft.program is before
    assert draft.schedule == sgd.schedule().schedule
    with pytest.raises(ScheduleError, match="no step"):
        draft.undo()


def test_a_refused_step_changes_nothing():
    draft = adam.schedule()
    draft.split("avg")
    before = draft.schedule
    with pytest.raises(ScheduleError):
        draft.split("m1")
    assert draft.schedule == before
    assert draft.program is before.result


def test_a_schedule_is_not_changed_by_further_steps():
    draft = adam.schedule()
    draft.split("avg")
    early = draft.schedule
    text = str(early.result)
    draft.reorder("avg", ["m1", "v1", "p1"])
    assert str(early.result) == text
    assert len(early.steps) == 1
    assert early.program is adam


def test_text_lists_the_steps():
    draft = sgd.schedule()
    draft.split("avg", by=0)
    assert str(draft.schedule) == "schedule of sgd\n  Split(target='avg', by=0)"
    assert str(draft) == str(draft.program)


def written():
    """A program, and the handles that its writer holds."""
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), DP)
    m = cc.tensor("m", cc.f32, (N,), cc.Replicated(), DP)
    s = cc.all_reduce(g)
    a = s + m
    y = a * 2.0
    return cc.program("k", inputs=[g, m], outputs=[y]), g, m, s, a, y


def test_handles_are_tensors_values_names_or_kernels():
    program, _, _, s, a, y = written()
    for handles in ((a, y), ("a", "y"), (program["a"], program["y"]), ([a], (y,))):
        draft = program.schedule()
        members = draft.fuse(*handles)
        assert [v.name for v in members] == ["a", "y"]
        (fusion,) = draft.program.fusions
        assert [v.name for v in draft.fuse(s, fusion)] == ["s", "a", "y"]


def test_handles_follow_their_values():
    program, _, m, s, a, y = written()
    draft = program.schedule()
    part, whole = draft.split(s)
    region, tail = draft.reorder(s, [y])
    assert [v.name for v in region] == ["m_s", "a", "y_s"]
    # a has become its slice, y its gather; the split's handles are still good
    fused = draft.fuse(part, a, region, y)
    assert [v.name for v in fused] == ["s_rs", "m_s", "a", "y_s", "y"]
    assert tail == (draft.program["y"],)
    # what the gather was is now spread over its uses: nothing in particular
    with pytest.raises(ScheduleError, match="0 values"):
        draft.reorder(whole, [y])
    assert m.value in program


def test_old_handles_are_good_after_undo():
    program, _, _, s, a, y = written()
    draft = program.schedule()
    part, whole = draft.split(s)
    draft.undo()
    draft.split(s)
    with pytest.raises(ScheduleError, match="not part of"):
        draft.fuse(part, a)
    assert [v.name for v in draft.reorder(s, [y])[1]] == ["y"]
    assert whole not in draft.program


def test_what_is_no_handle():
    program, *_ = written()
    draft = program.schedule()
    with pytest.raises(TypeError, match="not a value"):
        draft.split(3)
    with pytest.raises(ScheduleError, match="one value"):
        draft.split(("a", "y"))
    with pytest.raises(ScheduleError, match="does not have"):
        draft.split("nothing")
    other, *_, foreign = written()
    with pytest.raises(ScheduleError, match="not part of"):
        draft.split(foreign)
    assert foreign.value in other.handles


@pytest.mark.parametrize("program", [sgd, adam], ids=["sgd", "adam"])
def test_the_library_keeps_the_bits(program, schedule_difference, plan_difference):
    found = cc.library(program)
    assert {"as_written", "one_shot", "split_fused", "fused"} <= found.keys()
    for schedule in found.values():
        for ranks in (1, 2, 3):
            after = schedule.result
            assert schedule_difference(program, after, ranks, {"N": 200}) is None
            assert plan_difference(after, ranks, {"N": 200}) is None


def test_a_handle_to_what_is_gone_is_refused_by_dead():
    draft = adam.schedule()
    _, whole = draft.split("avg")
    draft.reorder(whole, ["m1", "v1", "p1"])
    with pytest.raises(ScheduleError, match="no longer part"):
        draft.dead(whole)


def test_reorder_takes_one_value_as_well():
    draft = sgd.schedule()
    _, whole = draft.split("avg")
    region, tail = draft.reorder(whole, "p1")
    assert [value.name for value in tail] == ["p1_ag", "p1"]
    assert region[-1].name == "p1_s"


def test_slice_state_says_what_comes_first():
    with pytest.raises(ScheduleError, match="split and reorder first"):
        sgd.schedule().slice_state("g")

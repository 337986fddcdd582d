"""Scheduled programs, and schedules, read back from their text."""

from __future__ import annotations

import pytest
from small_programs import names, program, reduced, refused, tensor

import coconet as cc
from coconet.errors import ProgramError, ScheduleError
from coconet.schedule import Draft
from coconet.workloads import optimizers
from coconet.workloads.chain import random_chain

PROGRAMS = [p for p in vars(optimizers).values() if isinstance(p, cc.Program)]
PROGRAMS += [random_chain(seed=seed) for seed in range(12)]
ADAM = optimizers.adam


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_library_schedules(program):
    for schedule in cc.library(program).values():
        found = cc.parse_program(str(schedule.result))
        assert cc.same_program(found, schedule.result)
        again = cc.parse_program(str(found))
        assert cc.same_program(again, found)
        assert cc.parse_schedule(program, str(schedule)) == schedule


def test_what_was_read_computes_the_same(schedule_difference, plan_difference):
    written = cc.parse_program(str(ADAM))
    for name, schedule in cc.library(ADAM).items():
        read = cc.parse_program(str(schedule.result))
        for ranks in (1, 3):
            assert schedule_difference(ADAM, read, ranks, {"N": 67}) is None
            assert plan_difference(read, ranks, {"N": 67}) is None
        again = cc.parse_schedule(written, str(schedule))
        assert cc.same_program(again.result, schedule.result), name
        replayed = cc.Schedule.from_json(written, schedule.to_json())
        assert cc.same_program(replayed.result, schedule.result), name


def test_what_was_read_is_scheduled_on(schedule_difference):
    split = ADAM.schedule()
    split.split("avg")
    draft = cc.parse_program(str(split.program)).schedule()
    region, tail = draft.reorder("avg", ["m1", "v1", "p1"])
    draft.fuse("avg_rs", region, tail)
    assert schedule_difference(ADAM, draft.program, 2, {"N": 67}) is None


def test_programs_that_differ_in_one_thing_are_not_the_same():
    text = str(cc.library(ADAM)["fused"].result)
    for old, new in [
        ("program adam", "program adan"),
        ("  p          f32", "  p          f64"),
        ("Group('dp')", "Group('dp', 2)"),
        ("Group('dp')", "Group('ep')"),
        ("1 - beta1)", "1.0 - beta1)"),
        ("** 0.5", "** -0.5"),
        ("- step_size", "+ step_size"),
        ("'mean'", "'sum'"),
        ("fused kernel_1", "fused kernel_2"),
        ("unnamed _1.._4", "unnamed _100, _2.._4"),
        ("m1_ag", "m1_all"),
        ("    m1 = update(m, m1_ag)", "  m1 = update(m, m1_ag)"),
        (
            "  eps        f64 scalar\n  t          i64 scalar",
            "  t i64 scalar\n  eps f64 scalar",
        ),
    ]:
        assert old in text
        changed = text.replace(old, new)
        try:
            found = cc.parse_program(changed)
        except (ProgramError, ScheduleError):
            continue
        assert not cc.same_program(found, cc.parse_program(text)), new
    zero, minus = (cc.parse_program(text.replace("0.5", x)) for x in ("0.0", "-0.0"))
    assert not cc.same_program(zero, minus)


def test_kernels_are_judged_as_fuse_judges():
    draft = ADAM.schedule()
    draft.split("avg")
    text = str(draft.program)
    torn = text.replace("  avg_rs", "  fused k:\n    avg_rs").replace(
        "  m1 =", "    m1 ="
    )
    with pytest.raises(ScheduleError, match="brings from peers") as caught:
        cc.parse_program(torn.replace("  avg =", "    avg ="), file="kept/adam.txt")
    assert caught.value.at.startswith("adam.txt:")


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("", "no schedule of the program", ""),
        ("schedule of sgd", "no schedule of the program", ""),
        ("schedule of adam\n  split('avg')", "no step", "s.txt:2"),
        ("schedule of adam\n\n  Split(target=avg)", "no step", "s.txt:3"),
        ("schedule of adam\n  Split('avg', by=ROWS)", "no step", "s.txt:2"),
        ("schedule of adam\n  Split('avg'); Split('avg')", "no step", "s.txt:2"),
        ("schedule of adam\n  Split('avg', when='now')", "no step", "s.txt:2"),
        ("schedule of adam\n  Split(target='m1')", "all-reduce", "s.txt:2"),
        ("schedule of adam\n  Fuse(members=('m1', 3))", "does not have", "s.txt:2"),
        ("schedule of adam\n  Split('avg')\n  Split('avg')", "all-reduce", "s.txt:3"),
    ],
)
def test_wrong_schedules_are_refused_at_their_line(text, words, line):
    with pytest.raises(ScheduleError, match=words) as caught:
        cc.parse_schedule(ADAM, text, file="kept/s.txt")
    assert caught.value.step_at == line


def test_messages_say_what_a_value_is_and_where_the_step_was_asked_for():
    g, m, r, s = reduced()
    out = s * m + r * 2.0
    draft = program(out, inputs=[g, m, r]).schedule()
    problem = refused(lambda: draft.fuse(s, out))
    assert "leaves out 'all_reduce(g) * m'" in problem.what
    assert problem.at.startswith("test_text.py:")
    assert problem.step_at == f"test_text.py:{_line_of('draft.fuse(s, out)')}"
    assert f"step: {problem.step_at}" in str(problem)
    assert str(problem).index("step:") < str(problem).index("need:")


def test_every_verb_names_the_line_that_called_it():
    x = tensor("x")
    y = x + 1.0
    draft = program(y, inputs=[x]).schedule()
    acts = [
        lambda: draft.split(y),
        lambda: draft.reorder(y, [y]),
        lambda: draft.fuse(x),
        lambda: draft.slice_state(x),
        lambda: draft.dead(y),
        lambda: draft.split("nothing"),
        lambda: draft.undo(),
    ]
    for act in acts:
        with pytest.raises(ScheduleError) as caught:
            act()
        assert caught.value.step_at == f"test_text.py:{act.__code__.co_firstlineno}"
    assert names(draft.program.values) == ["_1", "y"]
    assert {Draft.split.__name__, Draft.dead.__name__} == {"split", "dead"}


def _line_of(words):
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, start=1) if words in line)

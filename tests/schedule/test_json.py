"""Schedules as JSON: there and back, and everything that is refused."""

from __future__ import annotations

import json

import pytest

import coconet as cc
from coconet.errors import ScheduleError
from coconet.schedule.json import MAX_BYTES
from coconet.schedule.library import fused
from coconet.workloads.optimizers import ADAM_STATE, adam, sgd

SPLIT = {"verb": "split", "target": "avg", "by": "FLAT"}


@pytest.mark.parametrize("program", [sgd, adam], ids=lambda program: program.name)
def test_library_schedules_come_back_equal(program):
    for schedule in cc.library(
        program, state=ADAM_STATE[: len(program.tensors) - 2]
    ).values():
        again = cc.Schedule.from_json(program, schedule.to_json())
        assert again == schedule
        assert str(again.result) == str(schedule.result)


@pytest.mark.parametrize("cut", [0, 1, cc.FLAT, cc.ROWS(1)])
def test_every_cut_comes_back(cut):
    dp = cc.Group("dp")
    x = cc.tensor("x", cc.f32, (3, 4), cc.Local(), dp)
    program = cc.program("two", inputs=[x], outputs=[cc.all_reduce(x) * 2])
    schedule = fused(program, by=cut)
    assert cc.Schedule.from_json(program, schedule.to_json()) == schedule


def document(*steps, **fields):
    return json.dumps({"program": "sgd", "steps": list(steps)} | fields)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a schedule"),
        ("[]", "not a schedule"),
        (document(SPLIT)[:-3], "not a schedule"),
        (document(SPLIT | {"shell": "rm"}), "unknown field"),
        (document(SPLIT, extra=1), "unknown field"),
        (document({"verb": "import", "target": "os"}), "verb"),
        (document({"verb": "split"}), "target"),
        (document({"verb": "split", "target": 3}), "str"),
        (document(SPLIT | {"by": "ROWS(-1)"}), "cut"),
        (document(SPLIT | {"by": "__import__('os')"}), "cut"),
        (document(SPLIT | {"by": -1}), ""),
        (document(SPLIT, program="adam"), "another program"),
        (document(SPLIT | {"target": "p"}), "all-reduce"),
        (document({"verb": "fuse", "members": "avg"}), "array"),
        (" " * (MAX_BYTES + 1), "too long"),
    ],
)
def test_anything_else_is_refused(text, words):
    with pytest.raises(ScheduleError) as caught:
        cc.Schedule.from_json(sgd, text)
    assert words in str(caught.value)


def test_loaded_steps_are_checked_like_a_users():
    text = document({"verb": "reorder", "gather": "avg", "outs": ["p1"]})
    with pytest.raises(ScheduleError, match="all-gather"):
        cc.Schedule.from_json(sgd, text)

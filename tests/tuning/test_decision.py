"""Decisions as strict JSON: what is wrong in any way is refused."""

from __future__ import annotations

import json

import pytest
from tuning.test_report import report, row

import coconet as cc
from coconet.backends.c.words import Knobs
from coconet.errors import CacheError
from coconet.schedule.json import MAX_BYTES
from coconet.tuning.decision import Decision
from coconet.workloads.optimizers import adam, sgd

CHOSEN = Decision(
    cc.library(sgd)["fused"],
    Knobs(block_elements=512),
    report(row("schedule 1", 1e-4), row("as_written", 2e-4)),
)


def test_a_decision_comes_back():
    again = Decision.from_json(sgd, CHOSEN.to_json())
    assert again == CHOSEN
    assert str(again.schedule.result) == str(CHOSEN.schedule.result)
    assert again.to_json() == CHOSEN.to_json()


def changed(**parts: object) -> str:
    return json.dumps(json.loads(CHOSEN.to_json()) | parts)


STEPS = json.loads(CHOSEN.to_json())["schedule"]
REPORT = json.loads(CHOSEN.to_json())["report"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "\xff",
        changed(more=1),
        changed(knobs={"block_elements": 512, "speed": 11}),
        changed(knobs={"block_elements": "512"}),
        changed(knobs=[1]),
        changed(schedule=STEPS | {"program": "adam"}),
        changed(schedule=STEPS | {"steps": STEPS["steps"][1:]}),
        changed(schedule=STEPS | {"steps": [{"verb": "rm", "target": "/"}]}),
        changed(schedule=None),
        changed(report=REPORT | {"rows": []}),
        changed(report=REPORT | {"more": 1}),
        changed(report=REPORT | {"ranks": "2"}),
        changed() + " " * MAX_BYTES,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(CacheError):
        Decision.from_json(sgd, text)


def test_a_decision_is_about_one_program():
    with pytest.raises(CacheError, match="adam"):
        Decision.from_json(adam, CHOSEN.to_json())

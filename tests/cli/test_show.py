"""`coconet show`: text and JSON of programs, schedules, plans and code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coconet.cli import show
from coconet.errors import ProgramError, ScheduleError

OPTIMIZERS = Path(__file__).parents[2] / "src/coconet/workloads/optimizers.py"
ADAM = f"{OPTIMIZERS}:adam"


def shown(capsys, target: str = ADAM, **options: object) -> str:
    given = {"schedule": None, "plan": False, "code": False, "as_json": False}
    assert show.main(target, **(given | options)) == 0
    return capsys.readouterr().out


def test_the_program_as_written(capsys):
    text = shown(capsys)
    assert "avg = all_reduce(g, 'mean')" in text
    assert "optimizers.py:" in text
    assert "fused_sliced" in text


def test_a_schedule_with_plan_and_code(capsys):
    text = shown(capsys, schedule="fused", plan=True, code=True)
    for part in ("reorder", "fused kernel_1:", "plan adam", "arrive dp", "cc_kernel"):
        assert part.lower() in text.lower()


def test_json_has_the_same_parts(capsys):
    parts = json.loads(
        shown(capsys, schedule="one_shot", plan=True, code=True, as_json=True)
    )
    assert set(parts) == {
        *("program", "schedule", "scheduled", "plan", "code", "schedules")
    }


def test_what_is_not_there_is_refused(capsys, tmp_path):
    with pytest.raises(ScheduleError, match="fused_sliced"):
        shown(capsys, schedule="fastest")
    with pytest.raises(ProgramError, match="FILE:PROGRAM"):
        shown(capsys, target="nowhere.py")
    with pytest.raises(ProgramError, match="adam"):
        shown(capsys, target=f"{OPTIMIZERS}:lamb")


def test_why_says_what_is_applied_refused_and_moved(capsys):
    options = {"schedule": "fused_sliced", "why": True, "dims": ["N=64Ki"]}
    text = shown(capsys, **options)
    assert "adam on 2 ranks" in text
    assert "  applied  Fuse(" in text
    assert "  refused  " in text
    assert "N=65536" in text
    why = json.loads(shown(capsys, **options, ranks=4, as_json=True))["why"]
    assert why["ranks"] == 4
    assert why["cost"]["moved_bytes"] >= why["cost"]["least_bytes"] > 0

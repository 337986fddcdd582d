"""`coconet verify`: counts, JSON, and exit code 1 on a mismatch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coconet.cli import verify
from coconet.errors import VerificationError
from coconet.verification import Case, Report

SMALL = """
print("this file prints")
import coconet as cc
dp = cc.Group("dp")
x = cc.tensor("x", cc.f32, (3, 5), cc.Local(), dp)
r = cc.tensor("r", cc.f32, (5,), cc.Replicated(), dp)
out = cc.relu(cc.all_reduce(x) + r)
small = cc.program("small", inputs=[x, r], outputs=[out])
mine = small.schedule()
rs, ag = mine.split("_1")
mine.fuse(rs, *mine.reorder(ag, out))
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "small.py").write_text(SMALL)
    return f"{tmp_path / 'small.py'}:small"


@pytest.mark.multiproc
def test_equal_schedules_exit_0_and_are_counted(capsys, target):
    assert verify.main(target, ranks=(1, 2), as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["program"] == "small"
    executors = {case["executor"] for case in found["cases"]}
    assert {"program", "C, symmetric tensors", "C, strided tensors"} <= executors
    assert {case["ranks"] for case in found["cases"]} == {1, 2}
    assert not any(case["mismatch"] for case in found["cases"])


@pytest.mark.multiproc
def test_a_schedule_of_the_users_own(capsys, target):
    assert verify.main(target.replace(":small", ":mine"), ranks=(2,), as_json=True) == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    assert {case["schedule"] for case in cases} == {"as_written", "mine"}
    assert {case["executor"] for case in cases} >= {"program", "C, private tensors"}


def test_a_mismatch_exits_1_and_is_printed(capsys, target, monkeypatch):
    wrong = Report("small", (Case("fused", 2, {"N": 3}, "C", "element 0 differs"),))
    monkeypatch.setattr(verify, "verify_on_processes", lambda *_: wrong)
    assert verify.main(target, ranks=(2,), as_json=False) == 1
    text = capsys.readouterr().out
    assert "element 0 differs" in text
    assert "1 mismatches" in text
    with pytest.raises(VerificationError, match="element 0 differs"):
        wrong.raise_if_wrong()

"""FILE:PROGRAM, where the file is the text of a program."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.cli import show, verify
from coconet.errors import ProgramError
from coconet.verification.target import load_schedules
from coconet.workloads.optimizers import adam, sgd


@pytest.fixture
def kept(tmp_path):
    """A folder with a program, a scheduled one, and texts that are none."""
    (tmp_path / "sgd.txt").write_text(f"{sgd}\n")
    (tmp_path / "fused.program").write_text(str(cc.library(adam)["fused"].result))
    (tmp_path / "wrong.txt").write_text("program k on Group('dp')\n  y = x\n")
    (tmp_path / "image.txt").write_bytes(b"\xff\xfe\x00")
    return tmp_path


def test_a_program_has_its_library(kept):
    program, schedules = load_schedules(kept / "sgd.txt", "sgd")
    assert cc.same_program(program, sgd)
    assert schedules.keys() == cc.library(sgd).keys()
    fused, schedules = load_schedules(kept / "fused.program", "adam")
    assert [fusion.name for fusion in fused.fusions] == ["kernel_1"]
    assert list(schedules) == ["as_written"]


def test_show_prints_it(kept, capsys):
    target = f"{kept / 'fused.program'}:adam"
    options = {"schedule": None, "plan": True, "code": False, "as_json": False}
    assert show.main(target, **options) == 0
    text = capsys.readouterr().out
    assert "fused kernel_1:" in text
    assert "fused.program:" in text
    assert "plan adam" in text


@pytest.mark.multiproc
def test_verify_runs_it_on_processes(kept, capsys):
    assert verify.main(f"{kept / 'sgd.txt'}:sgd", ranks=(2,), as_json=False) == 0
    assert "6 schedules, 0 mismatches" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sgd.txt:adam", "another program"),
        ("wrong.txt:k", r"wrong.txt:2"),
        ("image.txt:k", "no text"),
        ("sgd.txt", "FILE:PROGRAM"),
    ],
)
def test_what_is_none_is_refused(kept, target, words):
    options = {"schedule": None, "plan": False, "code": False, "as_json": False}
    with pytest.raises(ProgramError, match=words):
        show.main(f"{kept / target}", **options)

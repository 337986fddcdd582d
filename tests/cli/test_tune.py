"""`coconet tune`: what is printed, kept and refused, and Ctrl-C on a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import coconet as cc
from coconet.cli.main import main
from coconet.workloads.optimizers import sgd

OPTIMIZERS = Path(__file__).parents[2] / "src/coconet/workloads/optimizers.py"
SGD, ADAM = f"{OPTIMIZERS}:sgd", f"{OPTIMIZERS}:adam"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("COCONET_CACHE", str(folder))
    return folder


def exit_code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


@pytest.mark.multiproc
@pytest.mark.slow
def test_a_program_is_tuned_shown_and_remembered(capfd, tmp_path):
    out = tmp_path / "sgd.json"
    words = ["tune", SGD, "--dim", "N=5Ki", "--time-box", "1", "--out", str(out)]
    assert exit_code(*words, "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["report"]["sizes"] == {"N": 5120}
    assert found["report"]["rows"][0]["verdict"] == "chosen"
    schedule = cc.Schedule.from_json(sgd, out.read_text())
    assert [str(step) for step in schedule.steps] == found["report"]["rows"][0]["steps"]
    assert exit_code(*words) == 0
    table = capfd.readouterr().out
    assert f"timed in {found['report']['wall_s']:.1f} s" in table
    assert "as_written" in table
    assert "chosen" in table
    assert exit_code("show", SGD, "--why", "--dim", "N=5Ki") == 0
    shown = capfd.readouterr().out
    assert "not measured" not in shown
    assert "without fusions" in shown
    assert "the least possible is" in shown


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "N"),
        (("--dim", "N"), "N=1000"),
        (("--dim", "N=0"), "N=1000"),
        (("--dim", "N=1,2"), "N=1000"),
        (("--dim", "N=8", "--dim", "M=8"), "M"),
        (("--dim", "N=8", "--slice-state", "q"), "'q'"),
        (("--dim", "N=8", "--time-box", "0"), "time_box_s"),
        (("--dim", "N=8", "--limit", "0"), "limit"),
        (("--dim", "N=8", "--ranks", "0"), "ranks"),
        (("--dim", "N=8", "--out", "/no/where/at.all"), "no directory"),
    ],
)
def test_wrong_options_are_usage_errors(words, hint, capsys):
    assert exit_code("tune", ADAM, *words) == 2
    assert hint in capsys.readouterr().err


def read_until(terminal: int, words: str, deadline_s: float) -> str:
    """Read a terminal until it shows these words, or its end."""
    text, ends_s = "", time.monotonic() + deadline_s
    while words not in text and time.monotonic() < ends_s:
        try:
            text += os.read(terminal, 4096).decode()
        except OSError:  # the other end is closed
            break
    return text


@pytest.mark.multiproc
@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    terminal, theirs = os.openpty()
    words = ["tune", ADAM, "--dim", "N=1Ki", "--time-box", "60"]
    with (tmp_path / "out").open("w+") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "coconet", *words, "--slice-state", "m,v"],
            stdin=theirs,
            stdout=out,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            shown = read_until(terminal, " of 60 s, ", 60)
            assert "tuning adam" in shown
            process.send_signal(signal.SIGINT)
            shown = read_until(terminal, "interrupted", 30)
            assert process.wait(30) == 130
        finally:
            process.kill()
            process.wait()
            os.close(terminal)
        out.seek(0)
        table = out.read()
    assert "interrupted" in shown
    assert "interrupted, the best so far is kept" in table
    assert "chosen" in table

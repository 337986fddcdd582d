"""`coconet run`: what the ranks get, and what comes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.multiproc

SCRIPT = """\
import os, sys
place = os.environ["COCONET_RANK"] + "/" + os.environ["COCONET_SIZE"]
sys.stdout.write(f"{place} {sys.argv[1:]}\\n")
sys.exit(int(os.environ["COCONET_RANK"]) * 3)
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "coconet", "run", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"]])
def test_ranks_get_their_place_and_the_arguments(tmp_path, how):
    done = run(tmp_path, "-n", "1", *how, "-n", "7", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0/1 ['-n', '7', '--json']\n"


def test_the_exit_code_is_that_of_the_rank_that_failed(tmp_path):
    done = run(tmp_path, "-n", "2", "script.py")
    assert done.returncode == 3
    assert sorted(done.stdout.splitlines()) == ["0/2 []", "1/2 []"]
    assert "rank 1" in done.stderr


def test_a_missing_script_is_an_error(tmp_path):
    done = run(tmp_path, "-n", "2", "nowhere.py")
    assert done.returncode != 0
    assert "nowhere.py" in done.stderr


def test_an_unknown_option_is_a_usage_error(tmp_path):
    done = run(tmp_path, "--nodes", "2", "script.py")
    assert done.returncode == 2
    assert "--nodes" in done.stderr

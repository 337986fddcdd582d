"""Starting is fast because little is loaded: lists of modules, never seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"numpy", "ml_dtypes", "torch", "triton", "msgspec", "rich", "jinja2"}
TOOLS = {"typer", "ctypes", "subprocess", "asyncio", "multiprocessing"}


def modules_loaded(*arguments: str) -> set[str]:
    """Top-level modules that `python ARGUMENTS` imports."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [x for x in done.stderr.splitlines() if x.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize(
    ("arguments", "banned"),
    [
        (["-c", "import coconet"], HEAVY | TOOLS),
        (["-m", "coconet", "--help"], HEAVY),
        (["-m", "coconet", "verify", "--help"], HEAVY),
    ],
    ids=["import", "help", "verify-help"],
)
def test_nothing_heavy_is_loaded(arguments, banned):
    loaded = modules_loaded(*arguments)
    assert "coconet" in loaded
    assert not loaded & banned

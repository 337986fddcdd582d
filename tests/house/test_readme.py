"""The README is the first test: its Python runs, and so do its commands.

A block ```python FILE is written to FILE; every other ```python block runs, in one
namespace, and must print what a ```text block right after it shows.  Lines `$ coconet
..` of ```console blocks run in the folder of those files.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

FENCE = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    file: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    return [
        Block(found[1], found[2], found[3], text.count("\n", 0, found.start(3)))
        for found in FENCE.finditer(text)
    ]


@pytest.fixture(scope="module")
def readme(root: Path) -> list[Block]:
    return blocks(root / "README.md")


def test_python_blocks_run_and_print_what_is_shown(root, readme):
    namespace: dict[str, object] = {"__name__": "readme"}
    inline = [block for block in readme if not block.file]
    assert any(block.language == "python" for block in inline)
    for block, after in zip(inline, [*inline[1:], None], strict=True):
        if block.language != "python":
            continue
        # Blank lines before the block keep the line numbers of the README.
        source = "\n" * block.line + block.text
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(root / "README.md"), "exec"), namespace)
        if after is not None and after.language == "text":
            assert printed.getvalue().strip() == after.text.strip()


@pytest.mark.multiproc
def test_commands_run(readme, tmp_path):
    for block in readme:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
    commands = [
        line.removeprefix("$ ")
        for block in readme
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ coconet ")
    ]
    assert commands
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"

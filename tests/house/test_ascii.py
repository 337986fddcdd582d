"""Every text file of the project is plain ASCII, with no blanks at line ends."""

from __future__ import annotations

from pathlib import Path

import pytest

PATTERNS = [
    *("*.md", "*.toml", "*.txt", "Makefile", "LICENSE", ".ci/run"),
    *("src/**/*.py", "src/**/*.[ch]", "tests/**/*.py", "docs/**/*.md"),
    *("examples/**/*.py", "benchmarks/**/*.md"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_text_is_ascii(root: Path, pattern: str):
    wrong = [
        f"{path.relative_to(root)}:{number}"
        for path in sorted(root.glob(pattern))
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1)
        if not line.isascii() or line.endswith((b" ", b"\t", b"\r"))
    ]
    assert not wrong, "\n".join(wrong)

"""What every house test looks at: the parsed files of src, and the root folder."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "coconet"


@dataclass(frozen=True)
class Source:
    """One Python file of src; `name` is its path inside the package."""

    path: Path
    name: str

    @property
    def part(self) -> str:
        """The top-level module or package the file belongs to."""
        return self.name.split("/")[0].removesuffix(".py")

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    files = sorted(SRC.rglob("*.py"))
    assert files, "no source files found"
    return [Source(path, path.relative_to(SRC).as_posix()) for path in files]

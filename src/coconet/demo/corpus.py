"""Real text that is on every machine: the sources of Python's standard library."""

from __future__ import annotations

import hashlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coconet.demo.recipe import Recipe
from coconet.errors import ResourceError

__all__ = ["VOCABULARY", "Corpus", "batch", "read_corpus"]

VOCABULARY = 128
"""Characters are ASCII codes."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A text as ASCII codes, and what it was made of."""

    codes: NDArray[np.uint8]
    files: int
    sha256: str


def read_corpus(num_bytes: int, folder: Path | None = None) -> Corpus:
    """Return the first `num_bytes` of the modules in a folder, in order of their names.

    folder  the standard library's, if None is given
    Files that are not ASCII are left out.
    Raises  ResourceError  there is less text than that
    """
    where = folder or Path(sysconfig.get_path("stdlib"))
    parts: list[bytes] = []
    missing = num_bytes
    for path in sorted(where.glob("*.py")):
        text = path.read_bytes()
        if missing > 0 and text.isascii():
            parts.append(text[:missing])
            missing -= len(text)
    if missing > 0:
        raise ResourceError(
            "the text to train on is too short",
            got=f"{num_bytes - missing} bytes of ASCII in {where}/*.py",
            need=f"{num_bytes} bytes",
            fix="install the sources of Python's standard library",
        )
    text = b"".join(parts)
    codes = np.frombuffer(text, np.uint8)
    return Corpus(codes, len(parts), hashlib.sha256(text).hexdigest())


def batch(
    corpus: Corpus, recipe: Recipe, *, step: int, rank: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what one rank reads in one step, and the characters that follow."""
    random = np.random.default_rng([recipe.seed, rank, step])
    starts = random.integers(corpus.codes.size - recipe.context, size=recipe.batch)
    spots = starts[:, None] + np.arange(recipe.context + 1)
    codes = corpus.codes[spots].astype(np.int64)
    return codes[:, :-1].copy(), codes[:, 1:].copy()

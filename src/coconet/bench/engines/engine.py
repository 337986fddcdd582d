"""What an engine is to the bench, and the one Adam step that all of them take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BETAS",
    "EPS",
    "LR",
    "Array",
    "Engine",
    "Place",
    "Ready",
    "gradient",
    "least_bytes",
    "parameter",
]

Array = NDArray[np.float32]

LR, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker stands: its rank of `size`, and its engine's private folder."""

    rank: int
    size: int
    folder: str


@dataclass(frozen=True, slots=True)
class Ready:
    """One size, ready to be stepped as often as asked.

    step reads `gradient`, this rank's own, which it may overwrite with the mean over
    the ranks, and updates `parameter`, which is whole on every rank.  An engine that
    moves bytes only has neither.
    """

    step: Callable[[], object]
    schedule: str
    gradient: Array | None = None
    parameter: Array | None = None


class Engine(Protocol):
    """One way to take the step; lives in a worker process, one per rank."""

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


def parameter(elements: int) -> Array:
    """Return the parameter before the first step: within 0.01, so that steps show."""
    return _uniform(elements, stream=0) * np.float32(0.01)


def gradient(elements: int, rank: int) -> Array:
    """Return the gradient of one rank."""
    return _uniform(elements, stream=1 + rank)


def least_bytes(elements: int, ranks: int) -> int:
    """Return the least bytes a rank reads and writes in one f32 Adam step.

    It reads its piece of every rank's gradient, of p, m and v, and writes its piece of
    m and v and of p on every rank.
    """
    piece = -(-elements // ranks)
    return 8 * elements + 20 * piece


def _uniform(elements: int, *, stream: int) -> Array:
    numbers = np.random.default_rng([2022, stream]).random(elements, dtype=np.float32)
    return numbers * np.float32(2) - np.float32(1)

"""What an engine is to the bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from coconet.bench.engines.task import Array, Task

__all__ = ["Engine", "Place", "Ready"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker stands, and what for.

    Attributes
      rank    of `size`
      folder  the engine's own, private to the run
      task    the step to take
    """

    rank: int
    size: int
    folder: str
    task: Task


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
    """One way to take the step; lives in a worker process, one per rank.

    Attributes
      library  what it runs on, in the words of that library's own version
    """

    library: str

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...

"""What every transformation is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Self

from coconet.ir import Program, Rewrite, Value

__all__ = ["Transform", "name_of"]


class Transform(ABC):
    """A step from a program to an equal program; its arguments are its fields.

    Values are named, not referenced, so that a step can be printed, compared and
    replayed.  `name` is the verb.
    """

    __slots__ = ()

    name: ClassVar[str]

    @abstractmethod
    def check(self, program: Program) -> None:
        """Raise ScheduleError if this step is not legal on this program."""

    @abstractmethod
    def apply(self, program: Program) -> Rewrite:
        """Return the new program; `check` has passed."""

    @classmethod
    @abstractmethod
    def candidates(cls, program: Program) -> Iterator[Self]:
        """Yield every legal step of this kind."""


def name_of(values: tuple[Value, ...]) -> str:
    """Return names for a message."""
    return ", ".join(value.name for value in values) or "nothing"

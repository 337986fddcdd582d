"""Shapes whose extents may be symbols, and their values at a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from coconet.ir.names import is_name

__all__ = ["Dim", "Extent", "Shape", "bind_shape", "dims", "numel"]


@dataclass(frozen=True, slots=True)
class Dim:
    """A symbolic extent, given a number by the arguments of each call.

    Two dims are equal only if they are the same symbol; a dim never counts as 1.
    """

    name: str

    def __post_init__(self) -> None:
        """Refuse names that could not be printed and read back."""
        if not is_name(self.name):
            raise ValueError(f"a dim's name is an identifier, got {self.name!r}")

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


Extent = int | Dim
Shape = tuple[Extent, ...]


def dims(names: str) -> tuple[Dim, ...]:
    """Make one symbolic dim per word: `B, S, H = dims("B S H")`."""
    if type(names) is not str:
        raise TypeError(f"dims takes the names in one string, got {names!r}")
    return tuple(Dim(name) for name in names.split())


def bind_shape(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Replace every symbol by its number.

    Raises KeyError if a symbol has none.
    """
    return tuple(e if isinstance(e, int) else sizes[e.name] for e in shape)


def numel(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a concrete shape; 1 for a 0-dim one."""
    return prod(shape)

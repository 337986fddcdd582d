"""The instructions of a plan.  Every rank runs the same list (SPMD)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coconet.ir import Cut, DType, Shape

__all__ = [
    "EVERY",
    "OWN",
    "Apply",
    "Arrive",
    "Barrier",
    "Constant",
    "FenceStores",
    "Index",
    "Instruction",
    "Load",
    "Peer",
    "Register",
    "RowMap",
    "Store",
    "Tile",
]


class _Relative(Enum):
    """A peer named relative to the rank that runs the instruction."""

    OWN = "rank"
    EVERY = "every"


OWN = _Relative.OWN
EVERY = _Relative.EVERY

Peer = int | _Relative
"""Whose copy of a buffer: a position of the group, OWN, or (stores only) EVERY."""


@dataclass(frozen=True, slots=True)
class Register:
    """A value inside a tile, one per element."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Constant:
    """A scalar expression of the plan, rounded to this dtype where it is used."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class RowMap:
    """How an operand that is broadcast follows the tile's elements.

    follows  per dim of the tile's shape: does the operand move along it?
    shape    the operand's global shape, its dims aligned right with the tile's
    cut      the operand's own cut, or None if each rank holds it whole
    """

    follows: tuple[bool, ...]
    shape: Shape
    cut: Cut | None


class Index(Enum):
    """Which element of a buffer belongs to an element of the tile."""

    GLOBAL = "i"
    """The row-major index in the global shape: the buffer is held whole."""
    PIECE = "i - lo"
    """The row-major index in this rank's piece: the buffer is cut as the tile is."""


@dataclass(frozen=True, slots=True)
class Load:
    """Read one element of a buffer of a peer."""

    result: Register
    buffer: str
    peer: Peer
    index: Index | RowMap


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a primitive (plan/scalar.py) to registers and constants."""

    result: Register
    primitive: str
    args: tuple[Register | Constant, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Write one element of a buffer: this rank's own, or the same one on every rank.

    Stores to peers become visible at the next FenceStores, not before.
    """

    buffer: str
    peer: Peer
    index: Index
    source: Register | Constant


@dataclass(frozen=True, slots=True)
class Tile:
    """A loop over the elements of a global shape: this rank's piece, or all of them.

    name   what it computes, for messages and text
    shape  the global shape
    cut    None: every rank runs over everything; else over its own piece
    body   straight-line code for one element
    """

    name: str
    shape: Shape
    cut: Cut | None
    body: tuple[Load | Apply | Store, ...]


@dataclass(frozen=True, slots=True)
class Arrive:
    """Wait until every rank has begun this call, and compare fingerprints."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Wait until every rank is here; `where` indexes the plan's `waits`."""

    where: int


@dataclass(frozen=True, slots=True)
class FenceStores:
    """Make this rank's stores to peers visible before anything that follows."""


Instruction = Tile | Arrive | Barrier | FenceStores

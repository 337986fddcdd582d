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
    "Fold",
    "Index",
    "Instruction",
    "Load",
    "Peer",
    "Position",
    "Reduce",
    "Register",
    "Step",
    "Store",
    "Tile",
    "View",
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
class View:
    """How a buffer whose elements do not lie like the tile's follows them.

    axes   per dim of the tile: the buffer's dim that moves along with it, or None
    start  per dim of the buffer: where it begins
    shape  the buffer's global shape
    cut    the buffer's own cut, or None if each rank holds it whole
    """

    axes: tuple[int | None, ...]
    start: tuple[int, ...]
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
    index: Index | View


@dataclass(frozen=True, slots=True)
class Position:
    """Take the number, in i64, of an element of a tensor that no rank need hold.

    index  GLOBAL: of the tile's own element; else of the view's, which has no cut
    """

    result: Register
    index: Index | View


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
    index: Index | View
    source: Register | Constant


@dataclass(frozen=True, slots=True)
class Reduce:
    """Fold elements of the tile by the fixed tree (plan/tree.py), and store the folds.

    dims        how many dims are folded, on this rank
    is_partial  the piece is one row, cut by FLAT: store its maximal aligned subtrees
    inner       how many dims follow the folded ones: 0 folds rows, else columns
    """

    buffer: str
    primitive: str
    source: Register | Constant
    dims: int
    is_partial: bool
    inner: int = 0


Step = Load | Position | Apply | Store | Reduce


@dataclass(frozen=True, slots=True)
class Tile:
    """A loop over the elements of a global shape: this rank's piece, or all of them.

    name   what it computes, for messages and text
    shape  the global shape
    cut    None: every rank runs over everything; else over its own piece
    body   straight-line code for one element; stores and reductions come last
    staged buffers that peers reach in rounds (plan/rounds.py) where they are private
    where  indexes the plan's `waits`: the wait of each round
    """

    name: str
    shape: Shape
    cut: Cut | None
    body: tuple[Step, ...]
    staged: tuple[str, ...] = ()
    where: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """Fold every rank's subtrees of a tensor cut by FLAT; each rank does it for itself.

    shape  of the tensor, whose elements were folded in row-major order
    """

    result: str
    partials: str
    primitive: str
    shape: Shape


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


Instruction = Tile | Fold | Arrive | Barrier | FenceStores

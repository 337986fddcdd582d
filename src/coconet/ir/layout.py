"""Where the pieces of a tensor live, and which elements a piece holds."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

__all__ = [
    "FLAT",
    "ROWS",
    "Cut",
    "Domain",
    "Layout",
    "Local",
    "Replicated",
    "Rooted",
    "Sliced",
]

FLAT_ALIGNMENT = 64
"""Elements, whatever the dtype: pieces of a bf16 gradient and of its f32 moments
coincide, and borders fall on 64-byte lines."""


@dataclass(frozen=True, slots=True)
class _Flat:
    """Cut the row-major flattened tensor; see FLAT."""

    def __repr__(self) -> str:
        return "FLAT"


FLAT = _Flat()
"""Cut the row-major flattened tensor in pieces of a multiple of 64 elements."""


@dataclass(frozen=True, slots=True)
class ROWS:
    """Flatten all but the last `k` dims and cut there: whole rows stay together.

    k may be 0: single elements, in pieces without FLAT's alignment; so lie the results
    of a reduction over the last k dims.
    """

    k: int = 1

    def __post_init__(self) -> None:
        """Refuse what is no number of dims."""
        if type(self.k) is not int or self.k < 0:
            raise ValueError(f"ROWS keeps a number of dims together, got {self.k!r}")


Cut = int | _Flat | ROWS


@dataclass(frozen=True, slots=True)
class Replicated:
    """The same value on every rank."""


@dataclass(frozen=True, slots=True)
class Local:
    """The same shape on every rank, with different values."""


@dataclass(frozen=True, slots=True)
class Rooted:
    """Defined on one position of the group only."""

    root: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no position."""
        if type(self.root) is not int or self.root < 0:
            raise ValueError(f"a root is a position from 0 on, got {self.root!r}")


@dataclass(frozen=True, slots=True)
class Sliced:
    """Rank i holds piece i of the global shape, by dim, FLAT or ROWS(k).

    Pieces may be uneven and empty.
    """

    cut: Cut

    def __post_init__(self) -> None:
        """Refuse cuts that are neither a dim, FLAT nor ROWS."""
        is_dim = type(self.cut) is int and self.cut >= 0
        if not is_dim and not isinstance(self.cut, _Flat | ROWS):
            raise ValueError(f"a cut is a dim >= 0, FLAT or ROWS(k), got {self.cut!r}")

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"Sliced({self.cut!r})"


Layout = Replicated | Local | Rooted | Sliced


@dataclass(frozen=True, slots=True)
class Domain:
    """The index space of a cut tensor, seen as outer x extent x inner.

    Every cut slices the middle one of three extents: FLAT is (1, numel, 1), ROWS(k)
    (1, rows, width), and dim d (product before d, shape[d], product after d).  Element
    (o, j, k) has the global row-major index (o * extent + j) * inner + k.
    """

    outer: int
    extent: int
    inner: int
    alignment: int = 1

    @staticmethod
    def of(shape: tuple[int, ...], cut: Cut) -> Domain:
        """Return the index space of a tensor of this shape under this cut."""
        match cut:
            case int():
                return Domain(prod(shape[:cut]), shape[cut], prod(shape[cut + 1 :]))
            case ROWS(k):
                split = max(len(shape) - k, 0)
                return Domain(1, prod(shape[:split]), prod(shape[split:]))
            case _:
                return Domain(1, prod(shape), 1, FLAT_ALIGNMENT)

    def piece(self, position: int, ranks: int) -> tuple[int, int]:
        """Return [lo, hi) of the middle extent that this position holds."""
        step = -(-self.extent // ranks)
        step = -(-step // self.alignment) * self.alignment
        lo = min(position * step, self.extent)
        return lo, min(lo + step, self.extent)

    def piece_numel(self, position: int, ranks: int) -> int:
        """Return how many elements this position holds."""
        lo, hi = self.piece(position, ranks)
        return self.outer * (hi - lo) * self.inner


def piece_shape(
    shape: tuple[int, ...], cut: Cut, position: int, ranks: int
) -> tuple[int, ...]:
    """Return the shape in which a rank stores its piece.

    A dim keeps its place; FLAT is 1-dim; ROWS(k) is (rows, the last k dims).
    """
    lo, hi = Domain.of(shape, cut).piece(position, ranks)
    match cut:
        case int():
            return (*shape[:cut], hi - lo, *shape[cut + 1 :])
        case ROWS(k):
            return (hi - lo, *shape[max(len(shape) - k, 0) :])
        case _:
            return (hi - lo,)

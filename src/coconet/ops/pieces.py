"""Pieces of arrays, for the reference semantics."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from coconet.ir import Cut, Domain
from coconet.ir.layout import piece_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["join_pieces", "take_piece"]


def take_piece(array: Array, cut: Cut, position: int, ranks: int) -> Array:
    """Return a position's piece of a whole array, as that rank stores it."""
    domain = Domain.of(array.shape, cut)
    lo, hi = domain.piece(position, ranks)
    split = array.reshape(domain.outer, domain.extent, domain.inner)
    return split[:, lo:hi].reshape(piece_shape(array.shape, cut, position, ranks))


def join_pieces(pieces: Sequence[Array], shape: tuple[int, ...], cut: Cut) -> Array:
    """Return the whole array of this shape from every rank's piece."""
    import numpy as np

    domain = Domain.of(shape, cut)
    ranks = len(pieces)
    split = [
        piece.reshape(domain.outer, _length(domain, position, ranks), domain.inner)
        for position, piece in enumerate(pieces)
    ]
    whole = np.concatenate(split, axis=1)
    assert whole.size == prod(shape)
    return whole.reshape(shape)


def _length(domain: Domain, position: int, ranks: int) -> int:
    lo, hi = domain.piece(position, ranks)
    return hi - lo

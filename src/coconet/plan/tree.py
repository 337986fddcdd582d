"""The fixed tree by which elements are folded: the same on any number of ranks.

Elements are taken in row-major order of the folded extents.  A leaf is 64 consecutive
ones in 16 lanes: lane j folds elements j, j + 16, j + 32 and j + 48 in this order, then
lanes fold with the lane 8, 4, 2 and 1 further.  Leaves fold by the aligned binary tree
on the leaf's index; what is missing is absent.  Pieces by FLAT end at leaf borders, so
a rank's piece is a few whole subtrees, and any rank can fold those of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from coconet.plan.scalar import PRIMITIVES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "LANES",
    "LEAF",
    "MAX_SUBTREES",
    "empty_fold",
    "fold_extents",
    "fold_rows",
    "fold_subtrees",
    "identity",
    "piece_leaves",
    "piece_subtrees",
    "subtrees",
]

LEAF = 64
LANES = 16
MAX_SUBTREES = 128
"""No piece has more: two for each bit of a leaf's index."""


def identity(primitive: str, dtype: np.dtype[Any]) -> Any:
    """Return what folds with any element to that element; stands for absent ones."""
    import numpy as np

    if primitive == "mul":
        return dtype.type(1)
    if primitive == "add":
        return dtype.type(-0.0 if dtype.kind == "f" else 0)
    if dtype.kind == "f":
        return dtype.type(-np.inf if primitive == "max" else np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if primitive == "max" else limits.max)


def empty_fold(primitive: str, dtype: np.dtype[Any]) -> Any:
    """Return the fold of no element: 0, 1, the least or the greatest number."""
    return dtype.type(0) if primitive == "add" else identity(primitive, dtype)


def fold_rows(rows: Array, primitive: str) -> Array:
    """Return the fold of each row of a two-dimensional array."""
    import numpy as np

    if rows.shape[1] == 0:
        empty = empty_fold(primitive, rows.dtype)
        return np.array([empty] * rows.shape[0], rows.dtype)
    return _climb(_leaves(rows, primitive), primitive).reshape(-1)


def subtrees(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the maximal aligned subtrees of leaves first to end, as (level, index)."""
    while first < end:
        level = (end - first).bit_length() - 1
        if first:
            level = min(level, (first & -first).bit_length() - 1)
        yield level, first >> level
        first += 1 << level


def fold_extents(
    stored: tuple[int, ...], dims: int, inner: int
) -> tuple[int, int, int]:
    """Return how many elements lie before, in, and after the folded dims of a piece.

    stored is the shape in which the rank stores it; inner dims follow the folded ones.
    """
    end = len(stored) - inner
    start = end - dims
    return prod(stored[:start]), prod(stored[start:end]), prod(stored[end:])


def piece_leaves(lo: int, hi: int) -> tuple[int, int]:
    """Return the first leaf of a piece by FLAT, and the end."""
    return (lo // LEAF, -(-hi // LEAF)) if lo < hi else (0, 0)


def piece_subtrees(piece: Array, first: int, primitive: str) -> Array:
    """Return the folds of a piece's subtrees; its first leaf has this index."""
    import numpy as np

    if piece.size == 0:
        return piece
    leaves = _leaves(piece.reshape(1, -1), primitive)[0]
    folds: list[Array] = []
    start = 0
    for level, _ in subtrees(first, first + len(leaves)):
        part = leaves[start : start + (1 << level)].reshape(1, -1)
        folds.append(_climb(part, primitive)[0])
        start += 1 << level
    return np.concatenate(folds)


def fold_subtrees(
    pieces: Iterable[tuple[int, int, Array]], primitive: str, dtype: np.dtype[Any]
) -> Any:
    """Return the fold of all; pieces are (first leaf, end, folds of its subtrees)."""
    import numpy as np

    fold = PRIMITIVES[primitive].array
    stack: list[tuple[int, Any]] = []
    with np.errstate(all="ignore"):
        for first, end, folds in pieces:
            for (level, index), value in zip(subtrees(first, end), folds, strict=False):
                node = level, index, value
                while node[1] & 1 and stack and stack[-1][0] == node[0]:
                    left = stack.pop()[1]
                    node = node[0] + 1, node[1] >> 1, fold(left, node[2])
                stack.append((node[0], node[2]))
        if not stack:
            return empty_fold(primitive, dtype)
        total = stack.pop()[1]
        while stack:
            total = fold(stack.pop()[1], total)
        return dtype.type(total)


def _leaves(rows: Array, primitive: str) -> Array:
    import numpy as np

    fold = PRIMITIVES[primitive].array
    missing = -rows.shape[1] % LEAF
    absent = identity(primitive, rows.dtype)
    padded = np.pad(rows, ((0, 0), (0, missing)), constant_values=absent)
    leaves = padded.shape[1] // LEAF
    parts = padded.reshape(len(rows), leaves, LEAF // LANES, LANES)
    with np.errstate(all="ignore"):
        lanes = parts[:, :, 0]
        for number in range(1, LEAF // LANES):
            lanes = fold(lanes, parts[:, :, number])
        width = LANES
        while width > 1:
            width //= 2
            lanes = fold(lanes[..., :width], lanes[..., width : 2 * width])
    return lanes[..., 0]


def _climb(nodes: Array, primitive: str) -> Array:
    """Fold the nodes of each row by the binary tree; returns one node per row."""
    import numpy as np

    fold = PRIMITIVES[primitive].array
    with np.errstate(all="ignore"):
        while nodes.shape[1] > 1:
            even = nodes.shape[1] // 2 * 2
            pairs = fold(nodes[:, 0:even:2], nodes[:, 1:even:2])
            nodes = np.concatenate([pairs, nodes[:, even:]], axis=1)
    return nodes

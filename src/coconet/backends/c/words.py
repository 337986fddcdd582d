"""The run-time words of a tile: extents, borders and knobs, computed at binding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from coconet.ir import Domain, bind_shape, numel
from coconet.ir.layout import piece_shape
from coconet.plan import Apply, Constant, Load, Plan, RowMap, Store, Tile

__all__ = [
    "Knobs",
    "TileWord",
    "row_maps",
    "row_width",
    "tile_words",
    "used_consts",
    "word_count",
]


class TileWord(IntEnum):
    """Where a tile's fixed words stand; the words of its rows follow."""

    OUTER = 0
    EXTENT = 1
    INNER = 2
    LO = 3
    HI = 4
    BLOCK = 5
    STREAM = 6
    ROW_WIDTH = 7
    ROWS = 8


@dataclass(frozen=True, slots=True)
class Knobs:
    """Numbers that change speed and nothing else.

    block_elements        how many elements are computed before peers get them
    stream_bytes          from this size of a tile's data on, stores to peers bypass the
                          caches (measured: benchmarks/results, about half an L2)
    """

    block_elements: int = 2048
    stream_bytes: int = 1 << 20


def row_maps(tile: Tile) -> tuple[RowMap, ...]:
    """Return the distinct ways in which broadcast operands follow the tile."""
    maps = (s.index for s in tile.body if isinstance(s, Load))
    return tuple(dict.fromkeys(m for m in maps if isinstance(m, RowMap)))


def row_width(tile: Tile) -> int:
    """Return how many trailing dims make a row, along which each operand moves
    with every element or not at all."""
    maps = row_maps(tile)
    rank = len(tile.shape)
    width = 0
    while width < rank and all(_is_even(m, width + 1) for m in maps):
        width += 1
    return width


def _is_even(row: RowMap, width: int) -> bool:
    last = row.follows[-width:]
    return all(last) or not any(last)


def word_count(tile: Tile) -> int:
    """Return how many words a tile has."""
    maps = row_maps(tile)
    leading = len(tile.shape) - row_width(tile)
    return TileWord.ROWS + (leading + len(maps) * (1 + leading) if maps else 0)


def tile_words(
    tile: Tile,
    sizes: Mapping[str, int],
    rank: int,
    ranks: int,
    knobs: Knobs,
    itemsize: int,
) -> list[int]:
    """Return the words of a tile for one rank; itemsize is bytes of one element."""
    shape = bind_shape(tile.shape, sizes)
    if tile.cut is None:
        domain, (lo, hi) = Domain(1, numel(shape), 1), (0, numel(shape))
    else:
        domain = Domain.of(shape, tile.cut)
        lo, hi = domain.piece(rank, ranks)
    width = row_width(tile)
    split = len(shape) - width
    stream = domain.outer * (hi - lo) * domain.inner * itemsize >= knobs.stream_bytes
    words = [
        domain.outer,
        domain.extent,
        domain.inner,
        lo,
        hi,
        knobs.block_elements,
        int(stream),
        max(numel(shape[split:]), 1),
    ]
    maps = row_maps(tile)
    if maps:
        words += [max(extent, 1) for extent in shape[:split]]
        for row in maps:
            words += _row_words(row, sizes, rank, ranks, split, len(shape))
    return words


def _row_words(
    row: RowMap,
    sizes: Mapping[str, int],
    rank: int,
    ranks: int,
    split: int,
    dims: int,
) -> list[int]:
    """Return an operand's first element, then its stride along each leading dim."""
    stored = bind_shape(row.shape, sizes)
    missing = dims - len(stored)
    first = 0
    if isinstance(row.cut, int):
        lo, _ = Domain.of(stored, row.cut).piece(rank, ranks)
        stored = piece_shape(stored, row.cut, rank, ranks)
        first = -lo * numel(stored[row.cut + 1 :])
    strides = [
        numel(stored[dim - missing + 1 :]) if row.follows[dim] else 0
        for dim in range(split)
    ]
    return [first, *strides]


def used_consts(plan: Plan) -> list[int]:
    """Return the expressions that the kernel gets, in the order of its `consts`.

    Literals are in the kernel's text, and what no tile reads is not passed.
    """
    used: set[int] = set()
    for tile in (step for step in plan.body if isinstance(step, Tile)):
        for step in tile.body:
            match step:
                case Apply(_, _, args):
                    used |= {x.number for x in args if isinstance(x, Constant)}
                case Store(source=Constant(number)):
                    used.add(number)
                case Load() | Store():
                    pass
    return sorted(n for n in used if plan.consts[n].kind != "literal")

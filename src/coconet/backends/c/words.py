"""The run-time words of a plan: extents, borders and knobs, computed at binding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from coconet.ir import FLAT, Domain, Shape, bind_shape, numel
from coconet.ir.layout import FLAT_ALIGNMENT, piece_shape
from coconet.options import checked_count
from coconet.plan import (
    Apply,
    Constant,
    Fold,
    Load,
    Plan,
    Position,
    Reduce,
    Rounds,
    Store,
    Tile,
    View,
)
from coconet.plan.tree import fold_extents, piece_leaves

__all__ = [
    "Knobs",
    "Move",
    "TileWord",
    "borders_word",
    "folds_columns",
    "folds_whole",
    "move_of",
    "plan_words",
    "reductions",
    "row_width",
    "used_consts",
    "views",
    "word_count",
]


class TileWord(IntEnum):
    """Where a tile's fixed words stand.

    Those of its reductions follow, three each: how many elements are folded into one,
    how many folds lie before the folded dims, and how many behind them, or the first
    leaf.  Then, if it has views, the extents of the leading dims, and for each view its
    first element, its stride along each leading dim, and along a row.  Then, if it has
    staged buffers, the elements of a chunk, and each rank's first element and end.
    """

    OUTER = 0
    EXTENT = 1
    INNER = 2
    LO = 3
    HI = 4
    BLOCK = 5
    STREAM = 6
    ROW_WIDTH = 7
    GRAIN = 8
    REST = 9


FOLD_WORDS = 3
FOLD_BLOCK = 4096
"""Elements of a block whose rows are folded: they stand on the stack first."""


class Move(Enum):
    """How a view's elements follow those of a row of the tile."""

    FIXED = "one element for all"
    NEXT = "element by element"
    STRIDE = "with a stride"


@dataclass(frozen=True, slots=True)
class Knobs:
    """Numbers that change speed and nothing else.

    block_elements        how many elements are computed before peers get them
    stream_bytes          from this size of a tile's data on, stores to peers bypass the
                          caches (measured: benchmarks/results, about half an L2)
    threads               that a rank computes with; 0: as many as the world says, fewer
                          where there is little to do
    round_elements        of each rank, in a round: how arguments that are not in
                          symmetric memory are handed over.  The same on every rank
    inbox_bytes           where the arguments that peers read have at most so many bytes
                          (and 64 KiB), they are copied into inboxes, and the call ends
                          without a wait.  The same on every rank
    """

    block_elements: int = 256
    stream_bytes: int = 1 << 20
    threads: int = 0
    round_elements: int = 1 << 14
    inbox_bytes: int = 1 << 16

    def __post_init__(self) -> None:
        """Refuse what is no whole number, or too small."""
        checked_count("block_elements", self.block_elements)
        checked_count("stream_bytes", self.stream_bytes, least=0)
        checked_count("threads", self.threads, least=0)
        checked_count("round_elements", self.round_elements)
        checked_count("inbox_bytes", self.inbox_bytes, least=0)


def views(tile: Tile) -> tuple[View, ...]:
    """Return the distinct ways in which buffers follow the tile otherwise than it."""
    indices = (s.index for s in tile.body if isinstance(s, Load | Position | Store))
    return tuple(dict.fromkeys(i for i in indices if isinstance(i, View)))


def reductions(tile: Tile) -> tuple[Reduce, ...]:
    """Return the steps that fold rows."""
    return tuple(step for step in tile.body if isinstance(step, Reduce))


def folds_whole(step: Reduce, tile: Tile) -> bool:
    """Whether all of a rank's elements are folded into one, or into its subtrees."""
    return step.is_partial or step.dims == len(tile.shape)


def folds_columns(tile: Tile) -> bool:
    """Whether the tile folds columns; it then has one reduction, and stores nothing."""
    return any(step.inner for step in reductions(tile))


def row_width(tile: Tile) -> int:
    """Return how many trailing dims make a row, along which every view moves evenly."""
    rank = len(tile.shape)
    width = 0
    while width < rank and all(_is_even(v, tile, width + 1) for v in views(tile)):
        width += 1
    # a view that is even along no dim goes along the last one by a stride
    return width or min(rank, 1)


def _is_even(view: View, tile: Tile, width: int) -> bool:
    """Whether the view stays, or goes element by element, along the last dims."""
    last = view.axes[-width:]
    if all(axis is None for axis in last):
        return True
    own = range(len(view.shape) - width, len(view.shape))
    if last != tuple(own):
        return False
    # behind the first of these dims its elements must be the tile's, and all of them
    inside = own[1:]
    is_whole = all(
        view.shape[axis] == tile.shape[len(tile.shape) - len(view.shape) + axis]
        for axis in inside
    )
    return is_whole and view.cut not in inside


def move_of(view: View, tile: Tile) -> Move:
    """Return how a view moves along a row."""
    width = row_width(tile)
    if all(axis is None for axis in view.axes[len(view.axes) - width :]):
        return Move.FIXED
    return Move.NEXT if _is_even(view, tile, width) else Move.STRIDE


def word_count(instruction: Tile | Fold, ranks: int) -> int:
    """Return how many words an instruction has."""
    if isinstance(instruction, Fold):
        return 2 * ranks
    rounds = 1 + 2 * ranks if instruction.staged else 0
    return borders_word(instruction) - 1 + rounds


def borders_word(tile: Tile) -> int:
    """Return where the borders of a tile with staged buffers are among its words."""
    found = views(tile)
    leading = len(tile.shape) - row_width(tile)
    rows = leading + len(found) * (2 + leading) if found else 0
    return TileWord.REST + FOLD_WORDS * len(reductions(tile)) + rows + 1


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the words are for."""

    plan: Plan
    sizes: Mapping[str, int]
    rank: int
    knobs: Knobs

    def shape(self, shape: Shape) -> tuple[int, ...]:
        return bind_shape(shape, self.sizes)

    def piece(self, domain: Domain, rank: int | None = None) -> tuple[int, int]:
        return domain.piece(self.rank if rank is None else rank, self.plan.ranks)


def plan_words(
    plan: Plan, sizes: Mapping[str, int], rank: int, knobs: Knobs
) -> list[int]:
    """Return the words of a plan for one rank, instruction by instruction."""
    place = _Place(plan, sizes, rank, knobs)
    words: list[int] = []
    for instruction in plan.body:
        if isinstance(instruction, Tile):
            words += _tile_words(instruction, place)
        elif isinstance(instruction, Fold):
            words += _fold_words(instruction, place)
    return words


def _tile_words(tile: Tile, place: _Place) -> list[int]:
    shape = place.shape(tile.shape)
    if tile.cut is None:
        domain, (lo, hi) = Domain(1, numel(shape), 1), (0, numel(shape))
    else:
        domain = Domain.of(shape, tile.cut)
        lo, hi = place.piece(domain)
    elements = domain.outer * (hi - lo) * domain.inner
    stored = (s for s in tile.body if isinstance(s, Store))
    itemsize = sum(place.plan.buffer(s.buffer).dtype.itemsize for s in stored)
    split = len(shape) - row_width(tile)
    folds = [_reduction_words(step, tile, place) for step in reductions(tile)]
    block = place.knobs.block_elements
    words = [
        domain.outer,
        domain.extent,
        domain.inner,
        lo,
        hi,
        min(block, FOLD_BLOCK) if folds else block,
        int(elements * itemsize >= place.knobs.stream_bytes),
        max(numel(shape[split:]), 1),
        _grain(tile, folds),
        *(word for fold in folds for word in fold),
    ]
    if views(tile):
        words += [max(extent, 1) for extent in shape[:split]]
    for view in views(tile):
        words += _view_words(view, place, split, move_of(view, tile))
    if tile.staged:
        length = place.knobs.round_elements
        rounds = Rounds.of(tile, shape, place.plan.ranks, length)
        words.append(length)
        words += (end for part in rounds.parts for end in (part.start, part.stop))
    return words


def _grain(tile: Tile, folds: Sequence[tuple[int, int, int]]) -> int:
    """Return of what multiple threads take elements: cache lines, and whole rows.

    Each thread may fold leaves of its own if all are folded into one, and only then.
    """
    is_whole = all(folds_whole(step, tile) for step in reductions(tile))
    is_free = is_whole or folds_columns(tile)
    row = 1 if is_free else max(row for row, _, _ in folds)
    return -(-FLAT_ALIGNMENT // max(row, 1)) * max(row, 1)


def _reduction_words(step: Reduce, tile: Tile, place: _Place) -> tuple[int, int, int]:
    """Return how many elements are folded into one on this rank, how many folds there
    are before the folded dims, and behind them; of a piece, its first leaf instead."""
    shape = place.shape(tile.shape)
    if step.is_partial:
        lo, hi = place.piece(Domain.of(shape, FLAT))
        return hi - lo, 1, piece_leaves(lo, hi)[0]
    if tile.cut is not None:
        shape = piece_shape(shape, tile.cut, place.rank, place.plan.ranks)
    outer, folded, inner = fold_extents(shape, step.dims, step.inner)
    return folded, outer, inner


def _view_words(view: View, place: _Place, split: int, move: Move) -> list[int]:
    """Return the first element, the stride along each leading dim, and along a row."""
    whole = place.shape(view.shape)
    stored, first = whole, 0
    if view.cut is not None:
        domain = Domain.of(whole, view.cut)
        lo, _ = place.piece(domain)
        first = -lo * domain.inner
        if isinstance(view.cut, int):
            stored = piece_shape(whole, view.cut, place.rank, place.plan.ranks)
    strides = [numel(stored[dim + 1 :]) for dim in range(len(stored))]
    first += sum(a * b for a, b in zip(view.start, strides, strict=True))
    along = [0 if axis is None else strides[axis] for axis in view.axes]
    return [first, *along[:split], along[-1] if move is Move.STRIDE else 1]


def _fold_words(fold: Fold, place: _Place) -> list[int]:
    """Return each rank's first leaf, and where its leaves end."""
    domain = Domain.of(place.shape(fold.shape), FLAT)
    words: list[int] = []
    for rank in range(place.plan.ranks):
        lo, hi = place.piece(domain, rank)
        words += piece_leaves(lo, hi)
    return words


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
                case Store(source=Constant(number)) | Reduce(source=Constant(number)):
                    used.add(number)
                case Load() | Position() | Store() | Reduce():
                    pass
    return sorted(n for n in used if plan.consts[n].kind != "literal")

"""What an instruction reads and writes, on one rank, at given sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from coconet.errors import InternalError
from coconet.ir import FLAT, Cut, Domain, Shape
from coconet.ir.layout import piece_shape
from coconet.plan.buffer import Buffer
from coconet.plan.instr import (
    EVERY,
    OWN,
    Apply,
    Fold,
    Index,
    Load,
    Peer,
    Position,
    Reduce,
    Step,
    Store,
    Tile,
    View,
)
from coconet.plan.plan import Plan
from coconet.plan.tree import fold_extents, piece_leaves, subtrees
from coconet.plan.verify.elements import boxes, piece_elements, repeat, span
from coconet.plan.verify.instances import Extents, bind

__all__ = ["Access", "Accesses"]


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of one rank's copy of a buffer, read or written by one step.

    owner     whose copy it is
    elements  as bits: see elements.py
    index     how they follow the loop; None if they do not
    """

    buffer: str
    owner: int
    elements: int
    is_store: bool
    index: Index | View | None


class Accesses:
    """Lists the accesses of a plan's instructions, where extents have these numbers."""

    def __init__(self, plan: Plan, extents: Extents) -> None:
        """Prepare; an int that `extents` does not name stands for itself."""
        self._ranks = plan.ranks
        self._extents = extents
        self._buffers = {buffer.name: buffer for buffer in plan.buffers}
        self._known: dict[tuple[object, ...], int] = {}

    def numel(self, buffer: Buffer, owner: int) -> int:
        """Return how many elements a rank's copy of a buffer has."""
        return self._held(buffer.shape, buffer.cut, owner)

    def of(self, instruction: Tile | Fold, rank: int) -> Iterator[Access]:
        """Yield what a rank reads and writes in one instruction, in order."""
        if isinstance(instruction, Tile):
            for step in instruction.body:
                yield from self._of_step(instruction, step, rank)
            return
        shape = bind(instruction.shape, self._extents)
        for owner in range(self._ranks):
            folds = span(0, self._subtrees(shape, owner))
            yield Access(instruction.partials, owner, folds, False, None)
        yield Access(instruction.result, rank, span(0, 1), True, None)

    def _of_step(self, tile: Tile, step: Step, rank: int) -> Iterator[Access]:
        match step:
            case Load(_, name, peer, index) | Store(name, peer, index, _):
                elements = self._indexed(tile, name, index, rank)
                is_store = isinstance(step, Store)
                if is_store:
                    self._check_apart(tile, step, elements.bit_count(), rank)
                for owner in self._owners(peer, rank):
                    yield Access(name, owner, elements, is_store, index)
            case Reduce(name):
                folds = span(0, self._folds(tile, step, rank))
                yield Access(name, rank, folds, True, None)
            case Apply() | Position():
                pass

    def _check_apart(self, tile: Tile, step: Step, places: int, rank: int) -> None:
        if places != self._held(tile.shape, tile.cut, rank):
            raise InternalError(
                f"elements of tile {tile.name!r} store to one place on rank {rank}",
                got=step,
                need="a place for each element",
            )

    def _owners(self, peer: Peer, rank: int) -> tuple[int, ...]:
        if peer is EVERY:
            return tuple(range(self._ranks))
        if peer is OWN:
            return (rank,)
        assert isinstance(peer, int)
        if not 0 <= peer < self._ranks:
            raise InternalError(
                "a step of a tile names a rank that is not there",
                got=peer,
                need=f"0 to {self._ranks - 1}",
            )
        return (peer,)

    def _indexed(self, tile: Tile, name: str, index: Index | View, rank: int) -> int:
        """Return the elements of a buffer that a tile's elements stand for."""
        if index is Index.PIECE and self._buffers[name].cut != tile.cut:
            raise InternalError(
                f"tile {tile.name!r} takes a piece of {name!r}, cut otherwise",
                got=repr(self._buffers[name].cut),
                need=repr(tile.cut),
            )
        key = (tile.shape, tile.cut, rank, index)
        if key not in self._known:
            if isinstance(index, View):
                self._known[key] = self._viewed(tile, index, rank)
            elif index is Index.PIECE or tile.cut is None:
                self._known[key] = span(0, self._held(tile.shape, tile.cut, rank))
            else:
                domain = Domain.of(bind(tile.shape, self._extents), tile.cut)
                self._known[key] = piece_elements(domain, rank, self._ranks)
        return self._known[key]

    def _viewed(self, tile: Tile, view: View, rank: int) -> int:
        stored = bind(view.shape, self._extents)
        origin = 0
        if view.cut is not None:
            domain = Domain.of(stored, view.cut)
            origin = domain.piece(rank, self._ranks)[0] * domain.inner
            if isinstance(view.cut, int):
                stored = piece_shape(stored, view.cut, rank, self._ranks)
        strides = [prod(stored[dim + 1 :]) for dim in range(len(stored))]
        start = sum(map(int.__mul__, view.start, strides)) - origin
        found = 0
        for box in self._boxes(tile, rank):
            moves = [
                (steps, strides[axis])
                for steps, axis in zip(box, view.axes, strict=True)
                if axis is not None
            ]
            first = start + sum(steps.start * stride for steps, stride in moves)
            if first < 0:
                raise InternalError(
                    f"tile {tile.name!r} looks before a buffer on rank {rank}",
                    got=f"element {first} by {view}",
                    need="element 0 or a later one",
                )
            elements = span(first, 1)
            for steps, stride in moves:
                elements = repeat(elements, len(steps), stride)
            found |= elements
        return found

    def _boxes(self, tile: Tile, rank: int) -> Iterator[tuple[range, ...]]:
        """Yield the coordinates over which a rank's loop runs."""
        shape = bind(tile.shape, self._extents)
        if tile.cut is None:
            yield from boxes(shape, 0, prod(shape))
            return
        domain = Domain.of(shape, tile.cut)
        lo, hi = domain.piece(rank, self._ranks)
        if isinstance(tile.cut, int):
            box = list(map(range, shape))
            box[tile.cut] = range(lo, hi)
            if all(map(len, box)):
                yield tuple(box)
            return
        yield from boxes(shape, lo * domain.inner, hi * domain.inner)

    def _held(self, shape: Shape, cut: Cut | None, rank: int) -> int:
        """Return how many elements of a tensor are a rank's."""
        bound = bind(shape, self._extents)
        if cut is None:
            return prod(bound)
        return Domain.of(bound, cut).piece_numel(rank, self._ranks)

    def _folds(self, tile: Tile, step: Reduce, rank: int) -> int:
        """Return how many folds a rank stores."""
        shape = bind(tile.shape, self._extents)
        if step.is_partial:
            return self._subtrees(shape, rank)
        if tile.cut is not None:
            shape = piece_shape(shape, tile.cut, rank, self._ranks)
        outer, _, inner = fold_extents(shape, step.dims, step.inner)
        return outer * inner

    def _subtrees(self, shape: tuple[int, ...], rank: int) -> int:
        """Return how many maximal aligned subtrees a rank's piece by FLAT has."""
        lo, hi = Domain.of(shape, FLAT).piece(rank, self._ranks)
        return sum(1 for _ in subtrees(*piece_leaves(lo, hi)))

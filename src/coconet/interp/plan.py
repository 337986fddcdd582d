"""Run a plan on all ranks in one process, under a seeded interleaving.

Each rank is a generator that gives way between chunks of a tile; a seeded choice says
who goes on.  Stores to peers stay invisible until the storing rank's next fence, as
non-temporal stores may.  A seeded choice, too, says which of the arguments and results
that may be private are, which peers reach through slots; or that peers read inboxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coconet.errors import InternalError
from coconet.interp.program import Arguments, Results
from coconet.interp.rounds import PRIVATE, Round, poisoned
from coconet.ir import FLAT, Domain, Shape, bind_shape, numel
from coconet.ir.layout import piece_shape
from coconet.plan import (
    EVERY,
    OWN,
    PRIMITIVES,
    Apply,
    Arrive,
    Barrier,
    Buffer,
    Constant,
    FenceStores,
    Fold,
    Index,
    Load,
    Plan,
    Position,
    Reduce,
    Register,
    Role,
    Store,
    Tile,
    View,
    evaluate_scalars,
)
from coconet.plan.inbox import INBOXES, inboxed
from coconet.plan.rounds import ROUND, Stage
from coconet.plan.scalar import round_array, to_dtype
from coconet.plan.tree import (
    fold_extents,
    fold_rows,
    fold_subtrees,
    piece_leaves,
    piece_subtrees,
)

__all__ = ["run_plan"]

Array = NDArray[Any]


def run_plan(
    plan: Plan, sizes: Mapping[str, int], arguments: Arguments, *, seed: int = 0
) -> Results:
    """Run every rank of a plan; the arguments are not changed.

    Raises InternalError if the ranks block each other for ever.
    """
    machine = _Machine(plan, sizes, arguments, np.random.default_rng(seed))
    machine.run()
    flat = {buffer.name: machine.shaped(buffer) for buffer in plan.buffers}
    return Results(
        outputs={b.name: flat[b.name] for b in plan.with_role(Role.RESULT)},
        effects={name: flat[name] for name in sorted(plan.updated)},
    )


@dataclass(slots=True)
class _Rank:
    """One simulated rank: its pending peer stores, its barriers and calls so far."""

    pending: list[tuple[Array, Array, Array]] = field(
        default_factory=list[tuple[Array, Array, Array]]
    )
    reached: int = 0
    calls: int = 0


class _Machine:
    def __init__(
        self,
        plan: Plan,
        sizes: Mapping[str, int],
        arguments: Arguments,
        rng: np.random.Generator,
    ) -> None:
        self.plan = plan
        self.sizes = sizes
        self.rng = rng
        scalars = [arguments[name] for name in plan.scalars]
        self.consts = evaluate_scalars(plan.consts, scalars, sizes)
        self.ranks = [_Rank() for _ in range(plan.ranks)]
        self.memory = {b.name: self._allocate(b, arguments) for b in plan.buffers}
        tiles = (step for step in plan.body if isinstance(step, Tile))
        staged = (tile for tile in tiles if tile.staged)
        names = inboxed(plan) if rng.random() < PRIVATE else ()
        self.inboxes = {
            name: [list(self.memory[name]) for _ in range(INBOXES)] for name in names
        }
        self.rounds = {tile: Round.draw(plan, tile, sizes, rng) for tile in staged}

    def _allocate(self, buffer: Buffer, arguments: Arguments) -> list[Array]:
        if buffer.role is Role.ARGUMENT:
            given: list[Array] = arguments[buffer.name]
            return [array.reshape(-1).copy() for array in given]
        shapes = [self._shape(buffer, rank) for rank in range(self.plan.ranks)]
        return [poisoned(buffer, numel(shape)) for shape in shapes]

    def _shape(self, buffer: Buffer, rank: int) -> tuple[int, ...]:
        shape = bind_shape(buffer.shape, self.sizes)
        if buffer.cut is None:
            return shape
        return piece_shape(shape, buffer.cut, rank, self.plan.ranks)

    def shaped(self, buffer: Buffer) -> tuple[Array, ...]:
        """Return every rank's array in the shape that the rank stores."""
        arrays = enumerate(self.memory[buffer.name])
        return tuple(array.reshape(self._shape(buffer, r)) for r, array in arrays)

    def run(self) -> None:
        """Step the ranks in a seeded order until all are done."""
        running = {rank: self._steps(rank) for rank in range(self.plan.ranks)}
        blocked: set[int] = set()
        # in some runs one rank takes a hundred steps while another takes one
        delay = [self.rng.uniform(0.1, 1) ** -3 for _ in self.ranks]
        while running:
            ready = [rank for rank in running if rank not in blocked]
            if not ready:
                raise InternalError(
                    f"plan {self.plan.name}: the ranks block each other"
                )
            rank = min(ready, key=lambda r: float(self.rng.exponential(delay[r])))
            try:
                progressed = next(running[rank])
            except StopIteration:
                del running[rank]
                progressed = True
            blocked = set() if progressed else blocked | {rank}

    def _steps(self, rank: int) -> Iterator[bool]:
        """Run one rank; yields False while it waits."""
        for instruction in self.plan.body:
            match instruction:
                case Tile() if self._is_staged(instruction):
                    yield from self._run_rounds(instruction, rank)
                case Tile():
                    rows: dict[Reduce, list[Array]] = defaultdict(list)
                    for start, stop in self._chunks(instruction, rank):
                        self._run_tile(instruction, rank, start, stop, rows)
                        yield True
                    for step in instruction.body:
                        if isinstance(step, Reduce):
                            self._reduce(instruction, rank, step, rows[step])
                case Fold():
                    self._fold(instruction, rank)
                    yield True
                case FenceStores():
                    self._flush(rank)
                case Arrive():
                    self._fill_inboxes(rank)
                    yield from self._meet(rank)
                case Barrier():
                    if not self.inboxes:
                        yield from self._meet(rank)

    def _is_staged(self, tile: Tile) -> bool:
        return bool(tile.staged and self.rounds[tile].slots and not self.inboxes)

    def _fill_inboxes(self, rank: int) -> None:
        mine = self.ranks[rank]
        mine.calls += 1
        for name, inboxes in self.inboxes.items():
            inboxes[mine.calls % INBOXES][rank] = self.memory[name][rank].copy()

    def _meet(self, rank: int) -> Iterator[bool]:
        mine = self.ranks[rank]
        mine.reached += 1
        yield True
        while any(peer.reached < mine.reached for peer in self.ranks):
            yield False

    def _run_rounds(self, tile: Tile, rank: int) -> Iterator[bool]:
        """Run a tile in lock-step; see plan/rounds.py."""
        first = self.rounds[tile]
        count = first.rounds.count
        for turn in range(count + 1 if count else 0):
            now = replace(first, turn=turn)
            for what in ROUND:
                match what:
                    case Stage.COPY_IN if turn < count:
                        now.copy(rank, self.memory, into=True)
                    case Stage.COPY_OUT if turn > 0:
                        before = replace(now, turn=turn - 1)
                        before.copy(rank, self.memory, into=False)
                    case Stage.COMPUTE if turn < count:
                        span = now.rounds.span(rank, turn)
                        self._run_tile(tile, rank, *span, {}, now)
                    case Stage.MEET:
                        yield from self._meet(rank)
                    case Stage.FENCE:
                        self._flush(rank)
                    case _:
                        pass
                yield True

    def _flush(self, rank: int) -> None:
        for target, index, source in self.ranks[rank].pending:
            target[index] = source
        self.ranks[rank].pending.clear()

    def _chunks(self, tile: Tile, rank: int) -> Iterator[tuple[int, int]]:
        total = self._domain(tile, rank)[1].size
        start = 0
        while start < total:
            stop = min(total, start + 1 + int(self.rng.integers(max(total // 2, 1))))
            yield start, stop
            start = stop

    def _domain(self, tile: Tile, rank: int) -> tuple[tuple[int, ...], Array]:
        """Return the global shape and the global row-major index of each element."""
        shape = bind_shape(tile.shape, self.sizes)
        everything = np.arange(numel(shape))
        if tile.cut is None:
            return shape, everything
        domain = Domain.of(shape, tile.cut)
        lo, hi = domain.piece(rank, self.plan.ranks)
        split = everything.reshape(domain.outer, domain.extent, domain.inner)
        return shape, split[:, lo:hi].reshape(-1)

    def _run_tile(
        self,
        tile: Tile,
        rank: int,
        start: int,
        stop: int,
        rows: Mapping[Reduce, list[Array]],
        now: Round | None = None,
    ) -> None:
        shape, elements = self._domain(tile, rank)
        chosen = elements[start:stop]
        pieces = np.arange(start, stop)
        registers: dict[Register, Array] = {}

        def operand(x: Register | Constant) -> Any:
            if isinstance(x, Constant):
                return to_dtype(self.consts[x.number], x.dtype.numpy)
            return registers[x]

        for step in tile.body:
            match step:
                case Load(result, name, peer, index):
                    position = peer if isinstance(peer, int) else rank
                    where = self._places(index, shape, chosen, pieces, rank)
                    source, where = self._peer(name, position, rank, where, now)
                    registers[result] = source[where]
                case Position(result, index):
                    places = self._places(index, shape, chosen, pieces, rank)
                    registers[result] = places.astype(np.int64)
                case Apply(result, primitive, args):
                    with np.errstate(all="ignore"):
                        value = PRIMITIVES[primitive].array(*map(operand, args))
                        value = round_array(np.asarray(value), result.dtype.numpy)
                    registers[result] = value
                case Store(name, peer, index, source):
                    where = self._places(index, shape, chosen, pieces, rank)
                    value = np.broadcast_to(operand(source), where.shape)
                    self._store(name, peer, rank, where, value, now)
                case Reduce(source=source):
                    value = np.broadcast_to(operand(source), chosen.shape)
                    rows[step].append(value)

    def _store(
        self,
        name: str,
        peer: object,
        rank: int,
        where: Array,
        value: Array,
        now: Round | None,
    ) -> None:
        if peer is OWN or peer is EVERY:
            self.memory[name][rank][where] = value
        if peer is EVERY:
            for position in range(self.plan.ranks):
                if position != rank:
                    target, places = self._peer(name, position, rank, where, now)
                    self.ranks[rank].pending.append((target, places, value))

    def _peer(
        self, name: str, owner: int, rank: int, where: Array, now: Round | None
    ) -> tuple[Array, Array]:
        """Return the memory where a rank finds these places of a buffer of `owner`."""
        if owner != rank and name in self.inboxes:
            return self.inboxes[name][self.ranks[rank].calls % INBOXES][owner], where
        if now is not None and owner != rank and (name, owner) in now.slots:
            return now.slots[name, owner], now.moved(rank, where)
        return self.memory[name][owner], where

    def _reduce(self, tile: Tile, rank: int, step: Reduce, parts: list[Array]) -> None:
        """Fold the rows of a tile that has run."""
        target = self.memory[step.buffer][rank]
        values = np.concatenate(parts) if parts else np.empty(0, target.dtype)
        if step.is_partial:
            first, _ = self._leaves(tile.shape, rank)
            folds = piece_subtrees(values, first, step.primitive)
        else:
            shape = bind_shape(tile.shape, self.sizes)
            if tile.cut is not None:
                shape = piece_shape(shape, tile.cut, rank, self.plan.ranks)
            outer, width, inner = fold_extents(shape, step.dims, step.inner)
            rows = values.reshape(outer, width, inner).swapaxes(1, 2)
            folds = fold_rows(rows.reshape(outer * inner, width), step.primitive)
        target[: folds.size] = folds

    def _leaves(self, shape: Shape, rank: int) -> tuple[int, int]:
        """Return the first leaf of a rank's piece by FLAT, and the end."""
        domain = Domain.of(bind_shape(shape, self.sizes), FLAT)
        lo, hi = domain.piece(rank, self.plan.ranks)
        return piece_leaves(lo, hi)

    def _fold(self, fold: Fold, rank: int) -> None:
        partials = self.memory[fold.partials]
        pieces = [
            (*self._leaves(fold.shape, peer), partials[peer])
            for peer in range(self.plan.ranks)
        ]
        target = self.memory[fold.result][rank]
        target[0] = fold_subtrees(pieces, fold.primitive, target.dtype)

    def _places(
        self,
        index: Index | View,
        shape: tuple[int, ...],
        chosen: Array,
        pieces: Array,
        rank: int,
    ) -> Array:
        """Return the index in a buffer's storage for each element."""
        if isinstance(index, Index):
            return chosen if index is Index.GLOBAL else pieces
        whole = bind_shape(index.shape, self.sizes)
        stored, first = whole, 0
        if index.cut is not None:
            domain = Domain.of(whole, index.cut)
            lo, _ = domain.piece(rank, self.plan.ranks)
            first = -lo * domain.inner
            if isinstance(index.cut, int):
                stored = piece_shape(whole, index.cut, rank, self.plan.ranks)
        strides = [numel(stored[dim + 1 :]) for dim in range(len(stored))]
        first += sum(a * b for a, b in zip(index.start, strides, strict=True))
        places = np.full(chosen.shape, first, np.int64)
        # numpy unravels neither nothing nor the one place of a shape without dims
        coordinates = np.unravel_index(chosen, shape) if chosen.size and shape else ()
        for axis, coordinate in zip(index.axes, coordinates, strict=False):
            if axis is not None:
                places += coordinate * strides[axis]
        return places

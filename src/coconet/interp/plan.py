"""Run a plan on all ranks in one process, under a seeded interleaving.

Each rank is a generator that gives way between chunks of a tile; a seeded choice says
who goes on.  Stores to peers stay invisible until the storing rank's next fence, as
non-temporal stores may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coconet.errors import InternalError
from coconet.interp.program import Arguments, Results
from coconet.ir import Domain, bind_shape, numel
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
    Index,
    Load,
    Plan,
    Register,
    Role,
    RowMap,
    Store,
    Tile,
    evaluate_scalars,
)
from coconet.plan.scalar import round_array, to_dtype

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
    """One simulated rank: its pending peer stores, and how many barriers it reached."""

    pending: list[tuple[Array, Array, Array]] = field(
        default_factory=list[tuple[Array, Array, Array]]
    )
    reached: int = 0


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
        self.consts = evaluate_scalars(plan.consts, scalars)
        self.ranks = [_Rank() for _ in range(plan.ranks)]
        self.memory = {b.name: self._allocate(b, arguments) for b in plan.buffers}

    def _allocate(self, buffer: Buffer, arguments: Arguments) -> list[Array]:
        if buffer.role is Role.ARGUMENT:
            given: list[Array] = arguments[buffer.name]
            return [array.reshape(-1).copy() for array in given]
        dtype = buffer.dtype.numpy
        made = [np.empty(self._shape(buffer, r), dtype) for r in range(self.plan.ranks)]
        for array in made:
            # what nobody wrote must not look right by luck
            array.reshape(-1).view(np.uint8)[:] = 0xA5
        return [array.reshape(-1) for array in made]

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
        while running:
            ready = [rank for rank in running if rank not in blocked]
            if not ready:
                raise InternalError(
                    f"plan {self.plan.name}: the ranks block each other"
                )
            rank = ready[int(self.rng.integers(len(ready)))]
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
                case Tile():
                    for start, stop in self._chunks(instruction, rank):
                        self._run_tile(instruction, rank, start, stop)
                        yield True
                case FenceStores():
                    self._flush(rank)
                case Arrive() | Barrier():
                    mine = self.ranks[rank]
                    mine.reached += 1
                    yield True
                    while any(peer.reached < mine.reached for peer in self.ranks):
                        yield False

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

    def _run_tile(self, tile: Tile, rank: int, start: int, stop: int) -> None:
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
                    source = self.memory[name][position]
                    if isinstance(index, RowMap):
                        where = self._row_index(index, shape, chosen, rank)
                    else:
                        where = chosen if index is Index.GLOBAL else pieces
                    registers[result] = source[where]
                case Apply(result, primitive, args):
                    with np.errstate(all="ignore"):
                        value = PRIMITIVES[primitive].array(*map(operand, args))
                        value = round_array(np.asarray(value), result.dtype.numpy)
                    registers[result] = value
                case Store(name, peer, index, source):
                    where = chosen if index is Index.GLOBAL else pieces
                    value = np.broadcast_to(operand(source), where.shape)
                    self._store(name, peer, rank, where, value)

    def _store(
        self, name: str, peer: object, rank: int, where: Array, value: Array
    ) -> None:
        targets = self.memory[name]
        if peer is OWN or peer is EVERY:
            targets[rank][where] = value
        if peer is EVERY:
            for position, target in enumerate(targets):
                if position != rank:
                    self.ranks[rank].pending.append((target, where, value))

    def _row_index(
        self, row: RowMap, shape: tuple[int, ...], chosen: Array, rank: int
    ) -> Array:
        """Return the index in a broadcast operand's storage for each element."""
        stored = bind_shape(row.shape, self.sizes)
        missing = len(shape) - len(stored)
        first: list[int] = [0] * len(stored)
        if isinstance(row.cut, int):
            first[row.cut] = Domain.of(stored, row.cut).piece(rank, self.plan.ranks)[0]
            stored = piece_shape(stored, row.cut, rank, self.plan.ranks)
        index = np.zeros(chosen.shape, np.int64)
        coordinates = np.unravel_index(chosen, shape) if chosen.size else ()
        for dim, coordinate in enumerate(coordinates):
            if row.follows[dim]:
                own = dim - missing
                stride = numel(stored[own + 1 :])
                index += (coordinate - first[own]) * stride
        return index

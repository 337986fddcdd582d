"""Lock-step rounds: how peers reach memory that they cannot address.

An argument or result that peers read or write may be private to its rank.  The rank
then hands it over in chunks, through slots that peers can address.  In each round, a
chunk of every rank's part of the tile is computed:

    copy in    each rank copies what peers will read into its slots
    meet       all ranks wait for each other
    copy out   each rank copies what peers wrote in the round before
    compute    the elements of this round; a peer's private memory means its slots
    fence      stores to peers are visible before the next round's wait

There are two slots, used in turn.  A rank copies into the slot of round k + 2 behind
the wait of round k + 1, which all reach after they computed round k; and peers write to
it behind the wait of round k + 2, which it reaches after it copied out round k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from coconet.ir import FLAT, ROWS, Domain
from coconet.plan.buffer import Buffer, Role
from coconet.plan.instr import OWN, Index, Load, Reduce, Store, Tile
from coconet.plan.plan import Plan

__all__ = ["ROUND", "SLOTS", "Rounds", "Stage", "peers_store", "stage"]

SLOTS = 2


class Stage(Enum):
    """What all ranks do in each round, one after the other."""

    COPY_IN = "copy in"
    MEET = "meet"
    COPY_OUT = "copy out"
    COMPUTE = "compute"
    FENCE = "fence"


ROUND = tuple(Stage)


@dataclass(frozen=True, slots=True)
class Rounds:
    """How a tile's elements are divided, at given sizes.

    parts     per rank: its elements of the tile, row-major in the global shape
    is_whole  every rank has all of them
    length    elements of a chunk
    """

    parts: tuple[range, ...]
    is_whole: bool
    length: int

    @staticmethod
    def of(tile: Tile, shape: tuple[int, ...], ranks: int, length: int) -> Rounds:
        """Return the rounds of a tile with staged buffers, of this global shape."""
        domain = Domain.of(shape, FLAT if tile.cut is None else tile.cut)
        inner = domain.inner
        if tile.cut is None:
            return Rounds((range(domain.extent),) * ranks, True, length)
        pieces = (domain.piece(rank, ranks) for rank in range(ranks))
        parts = tuple(range(lo * inner, hi * inner) for lo, hi in pieces)
        return Rounds(parts, False, length)

    @property
    def count(self) -> int:
        """How many rounds there are: enough for the largest part."""
        return -(-max(map(len, self.parts)) // self.length)

    @property
    def size(self) -> int:
        """How many elements the slots of one buffer have, on one rank."""
        return SLOTS * self._regions * self.length

    @property
    def _regions(self) -> int:
        return 1 if self.is_whole else len(self.parts)

    def chunk(self, rank: int, turn: int) -> range:
        """Return a rank's elements in a round."""
        return self.parts[rank][turn * self.length : (turn + 1) * self.length]

    def span(self, rank: int, turn: int) -> tuple[int, int]:
        """Return the same, counted from the first element of the rank."""
        chunk, first = self.chunk(rank, turn), self.parts[rank].start
        return chunk.start - first, chunk.stop - first

    def slot(self, rank: int, turn: int) -> int:
        """Return where the chunk of that rank and round begins in anyone's slots."""
        region = 0 if self.is_whole else rank
        return ((turn % SLOTS) * self._regions + region) * self.length

    def copied(self, owner: int) -> list[int]:
        """Return whose chunks an owner copies."""
        if self.is_whole:
            return [owner]
        return [rank for rank in range(len(self.parts)) if rank != owner]


def peers_store(tile: Tile, buffer: str) -> bool:
    """Whether a staged buffer of a tile is written by peers; else they read it."""
    stores = (step for step in tile.body if isinstance(step, Store))
    return any(s.buffer == buffer and s.peer is not OWN for s in stores)


def stage(plan: Plan, loops: Iterable[str]) -> Plan:
    """Return the plan, each tile with the names of what it can stage.

    loops says for messages what each tile does, in order.
    """
    met = [_met(step) if isinstance(step, Tile) else {} for step in plan.body]
    body, waits, said = list(plan.body), list(plan.waits), iter(loops)
    for place, step in enumerate(body):
        if not isinstance(step, Tile):
            continue
        what = next(said)
        others = {name for n, names in enumerate(met) if n != place for name in names}
        staged = tuple(
            name
            for name, accesses in met[place].items()
            if name not in others
            and _is_given(plan.buffer(name))
            and _is_even(step, accesses)
        )
        if staged and _goes_in_rounds(step):
            body[place] = replace(step, staged=staged, where=len(waits))
            waits.append(f"a round of {what}")
    return replace(plan, body=tuple(body), waits=tuple(waits))


def _met(tile: Tile) -> dict[str, list[Load | Store]]:
    """Return the accesses of what a tile touches on peers, by buffer."""
    found: dict[str, list[Load | Store]] = {}
    for step in tile.body:
        if isinstance(step, Load | Store) and step.peer is not OWN:
            found.setdefault(step.buffer, []).append(step)
    return found


def _goes_in_rounds(tile: Tile) -> bool:
    """Whether a rank's elements follow each other, and none is folded with others."""
    is_folding = any(isinstance(step, Reduce) for step in tile.body)
    is_run = tile.cut in (None, 0, FLAT) or isinstance(tile.cut, ROWS)
    return is_run and not is_folding


def _is_given(buffer: Buffer) -> bool:
    """Whether a buffer's memory is the caller's, who may have taken any."""
    return buffer.role is not Role.SCRATCH and buffer.cut is None


def _is_even(tile: Tile, accesses: Sequence[Load | Store]) -> bool:
    """Whether peers only read, or only write, what lies as the tile runs."""
    kinds = {type(access) for access in accesses}
    is_whole_store = tile.cut is None and Store in kinds
    lies_so = all(access.index is Index.GLOBAL for access in accesses)
    return lies_so and len(kinds) == 1 and not is_whole_store

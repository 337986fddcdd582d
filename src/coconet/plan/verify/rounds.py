"""What ranks read and write in the rounds of a tile whose arguments are private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coconet.plan.buffer import Buffer, Role, Space
from coconet.plan.instr import Index, Tile
from coconet.plan.plan import Plan
from coconet.plan.rounds import Rounds, peers_store
from coconet.plan.verify.accesses import Access, Accesses
from coconet.plan.verify.elements import span
from coconet.plan.verify.instances import Extents, bind

__all__ = ["StagedTile", "hidden"]

TURNS = 3
"""Rounds of the proof: the third uses the slots of the first again."""


def hidden(plan: Plan) -> Plan:
    """Return the plan as it is where all that may be private is."""
    names = {n for step in plan.body if isinstance(step, Tile) for n in step.staged}
    buffers = (
        replace(buffer, space=Space.PRIVATE) if buffer.name in names else buffer
        for buffer in plan.buffers
    )
    return replace(plan, buffers=tuple(buffers))


class StagedTile:
    """A tile in rounds, where extents have these numbers."""

    def __init__(self, plan: Plan, tile: Tile, extents: Extents) -> None:
        """Divide it in a few rounds."""
        shape, ranks = bind(tile.shape, extents), plan.ranks
        largest = max(map(len, Rounds.of(tile, shape, ranks, 1).parts))
        length = max(-(-largest // TURNS), 1)
        self.rounds = Rounds.of(tile, shape, ranks, length)
        self._tile = tile
        self._dtypes = {buffer.name: buffer.dtype for buffer in plan.buffers}

    def slots(self) -> Iterator[tuple[Buffer, int]]:
        """Yield the slots of each staged buffer, and how many elements they have."""
        for name in self._tile.staged:
            slots = Buffer(
                _slots(name),
                self._dtypes[name],
                (self.rounds.size,),
                None,
                Space.SYMMETRIC,
                Role.SCRATCH,
            )
            yield slots, self.rounds.size

    def copied(self, owner: int, turn: int, *, into: bool) -> Iterator[Access]:
        """Yield what a rank reads and writes when it copies into its slots, or back."""
        inside = outside = 0
        for rank in self.rounds.copied(owner):
            chunk = self.rounds.chunk(rank, turn)
            outside |= span(chunk.start, len(chunk))
            inside |= span(self.rounds.slot(rank, turn), len(chunk))
        for name in self._tile.staged:
            if into != peers_store(self._tile, name):
                yield Access(_slots(name), owner, inside, into, None)
                yield Access(name, owner, outside, not into, None)

    def computed(self, accesses: Accesses, rank: int, turn: int) -> Iterator[Access]:
        """Yield what a rank reads and writes when it computes its elements of a round.

        Of what is not staged these are all that the tile has: the proof then asks for
        more than is needed.
        """
        chunk = self.rounds.chunk(rank, turn)
        inside = span(self.rounds.slot(rank, turn), len(chunk))
        for access in accesses.of(self._tile, rank):
            if (
                access.buffer not in self._tile.staged
                or access.index is not Index.GLOBAL
            ):
                yield access
            elif access.owner == rank:
                yield replace(access, elements=span(chunk.start, len(chunk)))
            else:
                yield replace(access, buffer=_slots(access.buffer), elements=inside)


def _slots(name: str) -> str:
    return f"{name}.slots"

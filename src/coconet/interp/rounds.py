"""Arguments that only their rank can address, in the rounds of a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coconet.ir import bind_shape
from coconet.plan import Buffer, Plan, Rounds, Tile, peers_store

__all__ = ["PRIVATE", "Round", "poisoned"]

Array = NDArray[Any]

PRIVATE = 0.4
"""How often what may be private is."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round of a staged tile.

    slots  of each buffer that is private, by name and owner
    """

    tile: Tile
    rounds: Rounds
    turn: int
    slots: Mapping[tuple[str, int], Array]

    @staticmethod
    def draw(
        plan: Plan, tile: Tile, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> Round:
        """Choose what is private in a tile, and in how large chunks it goes."""
        shape, ranks = bind_shape(tile.shape, sizes), plan.ranks
        largest = max(map(len, Rounds.of(tile, shape, ranks, 1).parts))
        length = 1 + int(rng.integers(max(largest, 1)))
        rounds = Rounds.of(tile, shape, ranks, length)
        slots = {
            (name, owner): poisoned(plan.buffer(name), rounds.size)
            for name in tile.staged
            for owner in range(ranks)
            if rng.random() < PRIVATE
        }
        return Round(tile, rounds, 0, slots)

    def moved(self, rank: int, where: Array) -> Array:
        """Return where in a peer's slots the elements of a rank are."""
        first = self.rounds.chunk(rank, self.turn).start
        return where - first + self.rounds.slot(rank, self.turn)

    def copy(
        self, owner: int, memory: Mapping[str, Sequence[Array]], *, into: bool
    ) -> None:
        """Copy this round's chunks of a rank's private memory to its slots, or back."""
        for name in self.tile.staged:
            slots = self.slots.get((name, owner))
            if slots is None or into == peers_store(self.tile, name):
                continue
            for rank in self.rounds.copied(owner):
                chunk = self.rounds.chunk(rank, self.turn)
                start = self.rounds.slot(rank, self.turn)
                inside = slots[start : start + len(chunk)]
                outside = memory[name][owner][chunk.start : chunk.stop]
                if into:
                    inside[:] = outside
                else:
                    outside[:] = inside


def poisoned(buffer: Buffer, size: int) -> Array:
    """Return memory in which what nobody wrote does not look right by luck."""
    array = np.empty(size, buffer.dtype.numpy)
    # NaN, for floats
    array.view(np.uint8)[:] = 0xFF if buffer.dtype.is_float else 0xA5
    return array

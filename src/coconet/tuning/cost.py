"""What a schedule should cost: work counted from its plan, time from a few rates.

Good for leaving out what cannot win, not for choosing the winner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coconet.ir import Cut, Domain, Program, Shape, Work, bind_shape, numel
from coconet.lower import lower
from coconet.plan import (
    EVERY,
    OWN,
    Apply,
    Arrive,
    Barrier,
    FenceStores,
    Fold,
    Instruction,
    Load,
    Peer,
    Plan,
    Reduce,
    Store,
    Tile,
)

__all__ = ["SHARED_MEMORY", "Estimate", "Machine", "estimate", "keep_best"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Machine:
    """What one rank can do while all the others do the same.

    cached_bytes_per_s holds for a call whose buffers all fit in cache_bytes

    Units   bytes read and written per second, in its own memory and in a peer's;
            operations per second; seconds per wait for all ranks
    Source  measured: benchmarks/results/adam.json, on its `machine`
    """

    memory_bytes_per_s: float = 20e9
    cached_bytes_per_s: float = 50e9
    cache_bytes: float = 2 << 20
    wire_bytes_per_s: float = 20e9
    flops_per_s: float = 25e9
    wait_s: float = 1e-6


SHARED_MEMORY = Machine()
"""Ranks of one host, whose peers' memory is as near as their own."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one call costs the rank that has most to do.

    seconds       by the rates of a machine
    memory_bytes  read and written, in any rank's memory
    wire_bytes    those of them that are in a peer's
    flops         operations on elements
    """

    seconds: float
    memory_bytes: float
    wire_bytes: float
    flops: float


def estimate(
    what: Plan | Program,
    ranks: int,
    sizes: Mapping[str, int],
    machine: Machine = SHARED_MEMORY,
) -> Estimate:
    """Count what a plan, or the plan of a program, does in one call.

    A loop reads and writes each buffer once, however often it uses an element.  sizes
    are numbers for the symbolic dims.

    Raises what `lower` does.
    """
    plan = lower(what, ranks) if isinstance(what, Program) else what
    counted = _Count(plan, sizes)
    fits = sum(counted.held.values()) <= machine.cache_bytes
    rate = machine.cached_bytes_per_s if fits else machine.memory_bytes_per_s
    total, seconds = Work(), 0.0
    for instruction in plan.body:
        work = counted.work(instruction)
        moving_s = (work.memory_bytes - work.wire_bytes) / rate
        moving_s += work.wire_bytes / machine.wire_bytes_per_s
        seconds += max(moving_s, work.flops / machine.flops_per_s)
        seconds += work.steps * machine.wait_s
        total += work
    return Estimate(seconds, total.memory_bytes, total.wire_bytes, total.flops)


def keep_best(
    candidates: Sequence[tuple[T, Estimate]], most: int = 6
) -> tuple[tuple[T, Estimate], ...]:
    """Return the first candidate, as written, then the best others, `most` in all."""
    first, *others = candidates
    others.sort(key=lambda candidate: candidate[1].seconds)
    return (first, *others[: most - 1])


class _Count:
    """Counts the work of a plan's instructions on the rank with the largest pieces."""

    def __init__(self, plan: Plan, sizes: Mapping[str, int]) -> None:
        self.ranks = plan.ranks
        self.sizes = sizes
        self.itemsize = {b.name: b.dtype.itemsize for b in plan.buffers}
        self.held = {
            b.name: self._numel(b.shape, b.cut) * b.dtype.itemsize for b in plan.buffers
        }

    def work(self, instruction: Instruction) -> Work:
        """Return what one instruction does; its steps are waits for all ranks."""
        match instruction:
            case Arrive() | Barrier():
                return Work(steps=1)
            case FenceStores():
                return Work()
            case Fold(result, partials):
                read = self.held[partials] * self.ranks
                wire = self.held[partials] * (self.ranks - 1)
                return Work(memory_bytes=read + self.held[result], wire_bytes=wire)
            case Tile():
                return self._tile_work(instruction)

    def _tile_work(self, tile: Tile) -> Work:
        elements = self._numel(tile.shape, tile.cut)
        applied = sum(isinstance(step, Apply | Reduce) for step in tile.body)
        total = Work(flops=applied * elements)
        accesses = {
            _access(step)
            for step in tile.body
            if isinstance(step, Load | Store | Reduce)
        }
        for _, buffer, peer in accesses:
            moved = min(elements * self.itemsize[buffer], self.held[buffer])
            moved *= self.ranks if peer is EVERY else 1
            # of a load from, or a store to, each position in turn, one stays here
            away = 0 if peer is OWN else moved * (self.ranks - 1) / self.ranks
            total += Work(memory_bytes=moved, wire_bytes=away)
        return total

    def _numel(self, shape: Shape, cut: Cut | None) -> int:
        """Return how many elements the first rank holds; no other holds more."""
        extents = bind_shape(shape, self.sizes)
        if cut is None:
            return numel(extents)
        return Domain.of(extents, cut).piece_numel(0, self.ranks)


def _access(step: Load | Store | Reduce) -> tuple[type, str, Peer]:
    """Return what makes two steps of a loop one pass over a buffer."""
    return type(step), step.buffer, OWN if isinstance(step, Reduce) else step.peer

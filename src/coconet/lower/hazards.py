"""Where a plan needs a barrier: accesses of one buffer by two ranks."""

from __future__ import annotations

from dataclasses import dataclass

from coconet.plan import OWN, Fold, Load, Reduce, Store, Tile

__all__ = ["Accesses", "needs_barrier"]


_NO: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Accesses:
    """What a tile does, by buffer name: to this rank's memory, and to peers'."""

    own_reads: frozenset[str]
    own_writes: frozenset[str]
    peer_reads: frozenset[str]
    peer_writes: frozenset[str]

    @staticmethod
    def of(instruction: Tile | Fold) -> Accesses:
        """Return the accesses of a loop."""
        if isinstance(instruction, Fold):
            read, written = {instruction.partials}, {instruction.result}
            return Accesses(frozenset(read), frozenset(written), frozenset(read), _NO)
        tile = instruction
        loads = [step for step in tile.body if isinstance(step, Load)]
        stores = [step for step in tile.body if isinstance(step, Store)]
        folds = {step.buffer for step in tile.body if isinstance(step, Reduce)}
        return Accesses(
            own_reads=frozenset(x.buffer for x in loads),
            own_writes=frozenset(x.buffer for x in stores) | folds,
            peer_reads=frozenset(x.buffer for x in loads if x.peer is not OWN),
            peer_writes=frozenset(x.buffer for x in stores if x.peer is not OWN),
        )

    def __or__(self, other: Accesses) -> Accesses:
        """Return what either does."""
        return Accesses(
            self.own_reads | other.own_reads,
            self.own_writes | other.own_writes,
            self.peer_reads | other.peer_reads,
            self.peer_writes | other.peer_writes,
        )

    @property
    def touches_peers(self) -> bool:
        """Whether any peer's memory is accessed."""
        return bool(self.peer_reads | self.peer_writes)


NONE = Accesses(_NO, _NO, _NO, _NO)


def needs_barrier(before: Accesses, after: Accesses) -> bool:
    """Whether `after` on one rank may not overlap with `before` on another.

    True if one of them writes a buffer that the other touches, across ranks.
    """
    return bool(
        after.peer_reads & (before.own_writes | before.peer_writes)
        or after.peer_writes & (before.own_reads | before.own_writes)
        or after.own_reads & before.peer_writes
        or after.own_writes & (before.peer_reads | before.peer_writes)
    )

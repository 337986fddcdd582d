"""Vector clocks: what has happened for certain before what a rank does next."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Clocks"]


class Clocks:
    """Two agents per rank, each with a clock that has one entry per agent.

    Agent r is rank r; agent ranks + r carries out r's stores to peers, each at some
    time after r began it and before r's next fence.  Agent a's entry for b is the tick
    of b up to which all that b did happens before what a does next.
    """

    def __init__(self, ranks: int) -> None:
        """Begin with nothing known."""
        self._ranks = ranks
        self._clocks = [[0] * (2 * ranks) for _ in range(2 * ranks)]

    def agent(self, rank: int, *, to_peer: bool) -> int:
        """Return who carries out an access of a rank."""
        return rank + self._ranks if to_peer else rank

    def rank(self, agent: int) -> int:
        """Return whose agent it is."""
        return agent % self._ranks

    def now(self, agent: int) -> int:
        """Return an agent's tick."""
        return self._clocks[agent][agent]

    def knows(self, agent: int, other: int, tick: int) -> bool:
        """Whether what `other` did at a tick happens before what `agent` does next."""
        return tick <= self._clocks[agent][other]

    def begin(self, rank: int) -> None:
        """A rank begins an instruction; its stores to peers follow all before it."""
        storing = self.agent(rank, to_peer=True)
        self._clocks[rank][rank] += 1
        self._learn(storing, [self._clocks[rank]])
        self._clocks[storing][storing] += 1

    def fence(self, rank: int) -> None:
        """A rank's stores to peers have happened."""
        self._learn(rank, [self._clocks[self.agent(rank, to_peer=True)]])

    def meet(self) -> None:
        """All ranks wait for each other."""
        for rank in range(self._ranks):
            self._learn(rank, self._clocks[: self._ranks])

    def _learn(self, agent: int, clocks: Sequence[list[int]]) -> None:
        self._clocks[agent] = list(map(max, self._clocks[agent], *clocks))

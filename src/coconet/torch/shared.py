"""Small agreements between the ranks: sums of a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coconet.backends.c import compile_plan
from coconet.ir import Program
from coconet.lower import lower
from coconet.runtime.world import World
from coconet.torch.schedule import one_kernel
from coconet.torch.workloads import shared

__all__ = ["Shared", "compiled"]


def compiled(program: Program, world: World) -> Any:
    """Compile a program, schedules applied, for a world."""
    return compile_plan(lower(program, world.size), world)


class Shared:
    """Numbers that every rank of a world adds to; every method is called on all ranks.

    Integers are exact up to 2**53.

    Fields  num_calls  that all ranks made together; the optimizer counts its own here
    Blocks  until every rank calls
    Raises  RanksDisagree if another rank does something else meanwhile
    """

    def __init__(self, world: World) -> None:
        """Compile the sum."""
        self._world = world
        self.num_calls = 0
        self._step = compiled(one_kernel(shared()).program, world)
        self._bound: dict[int, tuple[Any, Any, Any]] = {}

    def sum(self, numbers: Any) -> list[float]:
        """Return the sum over ranks of each number, the same bits on every rank."""
        count = len(numbers)
        if count not in self._bound:
            x, total = (self._world.pool.empty((count,), np.float64) for _ in "xt")
            self._bound[count] = x, total, self._step.bind(x=x, total=total)
        x, total, step = self._bound[count]
        x[:] = numbers
        self.num_calls += 1
        step()
        return total.tolist()

    def rows(self, row: Sequence[int]) -> list[list[int]]:
        """Return every rank's row, by rank; all have one length."""
        world = self._world
        table = np.zeros((world.size, len(row)))
        table[world.rank] = row
        whole = [int(number) for number in self.sum(table.reshape(-1))]
        return [
            whole[start : start + len(row)] for start in range(0, len(whole), len(row))
        ]

    def wait(self) -> None:
        """Wait until every rank is here."""
        self.sum([0.0])

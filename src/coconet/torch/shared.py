"""Small agreements between the ranks: sums of a few numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coconet.backends.c import compile_plan
from coconet.errors import RanksDisagree
from coconet.ir import Program
from coconet.lower import lower
from coconet.runtime.world import World
from coconet.torch.schedule import one_kernel
from coconet.torch.workloads import shared

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    def by_rank(self, number: float) -> list[float]:
        """Return what to add so that the sums are every rank's number, by rank."""
        world = self._world
        return [number if rank == world.rank else 0.0 for rank in range(world.size)]

    def rows(self, row: Sequence[int]) -> list[list[int]]:
        """Return every rank's row, by rank; all have one length."""
        world = self._world
        table = np.zeros((world.size, len(row)))
        table[world.rank] = row
        whole = [int(number) for number in self.sum(table.reshape(-1))]
        return [
            whole[start : start + len(row)] for start in range(0, len(whole), len(row))
        ]

    def check_alike(self, what: str, description: str) -> None:
        """Raise RanksDisagree unless every rank gives the same description."""
        digest = int(hashlib.sha256(description.encode()).hexdigest()[:12], 16)
        rows = self.rows([digest])
        others = tuple(rank for rank, row in enumerate(rows) if row != rows[0])
        if others:
            raise RanksDisagree(
                f"ranks have different {what}",
                got=f"rank {self._world.rank}: {description}",
                need="the same on every rank",
                ranks=others,
            )

    def take_from_rank_0(self, array: NDArray[Any]) -> None:
        """Give an array in symmetric memory the bytes that it has on rank 0."""
        rows = self.rows([array.ctypes.data - self._world.pool.base])
        if self._world.rank:
            self._world.read(0, rows[0][0], array)
        self.wait()

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Give a dense tensor, wherever it lies, the bytes that it has on rank 0."""
        array = self._world.pool.empty((tensor.nbytes,), np.uint8)
        there = torch.as_tensor(array).view(tensor.dtype).view(tensor.shape)
        there.copy_(tensor.detach())
        self.take_from_rank_0(array)
        tensor.detach().copy_(there)

    def wait(self) -> None:
        """Wait until every rank is here."""
        self.sum([0.0])

"""Small agreements between the ranks of an optimizer, and what it takes from rank 0."""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coconet.runtime.exchange import Exchange
from coconet.runtime.world import World

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Shared"]

_NUMBER = struct.Struct("d")


class Shared:
    """What the ranks of a world tell each other; every method is called on all ranks.

    Fields  num_calls  that all ranks made together; the optimizer counts its own here
    Blocks  until every rank calls
    Raises  RanksDisagree if another rank does something else meanwhile
    """

    def __init__(self, world: World) -> None:
        """Compile the exchange."""
        self._world, self._exchange = world, Exchange(world)
        self.num_calls = 0

    def rows(self, row: bytes, what: str) -> list[bytes]:
        """Return every rank's row, by rank; all have one length.  See Exchange."""
        self.num_calls += 1
        return self._exchange.rows(row, what)

    def offsets(self, arrays: Sequence[NDArray[Any]]) -> list[tuple[int, ...]]:
        """Return by rank where these arrays lie in each rank's segment."""
        layout = struct.Struct(f"{len(arrays)}q")
        own = (array.ctypes.data - self._world.pool.base for array in arrays)
        rows = self.rows(layout.pack(*own), "the optimizer's tensors")
        return list(map(layout.unpack, rows))

    def sum(self, number: float) -> float:
        """Return the sum over ranks, added in rank order: the same bits on each."""
        rows = self.rows(_NUMBER.pack(number), "the optimizer's sum")
        # not sum(): it rounds otherwise from Python 3.12 on
        return functools.reduce(operator.add, (_NUMBER.unpack(r)[0] for r in rows))

    def agree(self, what: str, text: str) -> None:
        """Raise RanksDisagree on every rank unless all pass the same text."""
        self.num_calls += 1
        self._exchange.agree(what, text)

    def take_from_rank_0(self, array: NDArray[Any]) -> None:
        """Give an array in symmetric memory the bytes that it has on rank 0."""
        (offset,), *_ = self.offsets([array])
        if self._world.rank:
            self._world.read(0, offset, array)
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
        self.rows(b"", "the optimizer's wait")

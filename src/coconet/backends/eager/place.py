"""Where an op runs: the process group, the device, and the sizes of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coconet.ir import Cut, DType, Sliced, Value, bind_shape, numel
from coconet.ir.layout import piece_shape
from coconet.ops import take_piece
from coconet.plan.scalar import to_dtype

__all__ = ["Operand", "Place", "torch_dtype"]

Operand = Tensor | float | int
"""A tensor on this rank, or a scalar."""

_torch: Any = torch  # torch annotates few parameters


@dataclass(frozen=True, slots=True)
class Place:
    """Where an op runs, and for which sizes.

    group  the processes; None: torch's default group
    rank   this process's position in it
    sizes  the number of each symbolic dim
    """

    group: Any
    rank: int
    ranks: int
    device: torch.device
    sizes: Mapping[str, int]

    def shape(self, value: Value) -> tuple[int, ...]:
        """Return a value's global shape."""
        return bind_shape(value.type.shape, self.sizes)

    def stored_shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape in which this rank stores a value."""
        shape, layout = self.shape(value), value.type.layout
        if not isinstance(layout, Sliced):
            return shape
        return piece_shape(shape, layout.cut, self.rank, self.ranks)

    def exchanges(self, value: Value) -> bool:
        """Return whether ranks have any element of a value to send to each other."""
        return self.ranks > 1 and numel(self.shape(value)) > 0

    def piece(self, x: Any, cut: Cut) -> Tensor:
        """Return this rank's piece of a whole tensor: a view where strides allow."""
        return self.piece_of(x, cut, self.rank)

    def piece_of(self, x: Any, cut: Cut, rank: int) -> Tensor:
        """Return a rank's piece of a whole tensor: a view where strides allow."""
        piece: Any = take_piece(x, cut, rank, self.ranks)
        return piece

    def scalar(self, number: float | int, dtype: DType) -> Tensor:
        """Return a scalar, rounded to a dtype, as a 0-dim tensor.

        It lives on the device because CUDA multiplies by the reciprocal where a divisor
        is a number of the host.
        """
        rounded = to_dtype(number, dtype.numpy).item()
        return _torch.full((), rounded, dtype=torch_dtype(dtype), device=self.device)


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return torch's dtype of the same bits."""
    return getattr(torch, dtype.numpy.name)  # torch has numpy's names

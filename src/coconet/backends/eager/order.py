"""Numbers as signed integers, which every engine and device can add and compare.

Neither torch's arithmetic nor its engines know unsigned integers of 32 and 64 bits, and
their max and min may lose a NaN or the sign of a zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["as_signed", "in_order", "out_of_order"]

_SIGNED = {
    torch.float32: torch.int32,
    torch.float64: torch.int64,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}
_LARGEST = {torch.int32: 2**31 - 1, torch.int64: 2**63 - 1}


def as_signed(x: Tensor) -> Tensor:
    """Return integers that wrap in sums and products as x does; floats as they are."""
    if x.is_floating_point() or x.dtype not in _SIGNED:
        return x
    return x.view(_SIGNED[x.dtype])


def in_order(x: Tensor, *, is_nan_largest: bool) -> Tensor:
    """Return integers that compare as the values do: -0 before +0, NaN at one end.

    For f32, f64 and integers; the bits are those of a value but for NaN's payload.
    """
    if x.dtype not in _SIGNED:
        return x
    bits = x.view(_SIGNED[x.dtype])
    largest = _LARGEST[bits.dtype]
    smallest = -largest - 1
    if not x.is_floating_point():
        return bits ^ smallest
    return torch.where(x.isnan(), largest if is_nan_largest else smallest, _turn(bits))


def out_of_order(ordered: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the values of this dtype that `in_order` encoded."""
    if dtype not in _SIGNED:
        return ordered
    if dtype.is_floating_point:
        return _turn(ordered).view(dtype)
    return (ordered ^ (-_LARGEST[ordered.dtype] - 1)).view(dtype)


def _turn(bits: Tensor) -> Tensor:
    """Turn sign and magnitude into the order of integers, and back."""
    largest = _LARGEST[bits.dtype]
    return bits ^ ((bits >> largest.bit_length()) & largest)

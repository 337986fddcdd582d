"""Element-wise ops as calls of torch, rounded where the interpreter rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coconet.backends.eager.order import as_signed, in_order, out_of_order
from coconet.backends.eager.place import Operand, Place, torch_dtype
from coconet.ir import Cut, DType, Replicated, Sliced, Value, f32, f64, numel
from coconet.ops import Dropout, Elementwise, take_piece
from coconet.ops.elementwise import wide_dtype
from coconet.plan.expansions import EXPANSIONS, expand

__all__ = ["POINTWISE", "cast", "dropout", "elementwise", "where"]

Call = Callable[..., Tensor]

_torch: Any = torch  # torch annotates few parameters


def elementwise(place: Place, value: Value, *operands: Operand) -> Tensor:
    """Compute in the wide dtype and round once."""
    assert isinstance(value.op, Elementwise)
    dtype = next(x.type.dtype for x in reversed(value.inputs) if not x.type.is_scalar)
    wide = torch_dtype(wide_dtype(dtype))
    parts = _aligned(place, value, operands, dtype)
    result = POINTWISE[value.op.name](*(part.to(wide) for part in parts))
    return result if result.dtype is torch.bool else result.to(torch_dtype(dtype))


def where(place: Place, value: Value, *operands: Operand) -> Tensor:
    """Select by the condition."""
    condition, a, b = _aligned(place, value, operands, value.type.dtype)
    return torch.where(condition, a, b)


def cast(place: Place, value: Value, x: Tensor) -> Tensor:
    """Convert; integers wrap.  From f64 to f16 torch goes through f32."""
    return x.to(torch_dtype(value.type.dtype))


def dropout(place: Place, value: Value, x: Tensor, seed: int) -> Tensor:
    """Drop what the interpreter drops; the numbers are drawn by numpy."""
    assert isinstance(value.op, Dropout)
    shape, layout = place.shape(value), value.type.layout
    numbers = np.arange(numel(shape)).reshape(shape)
    if isinstance(layout, Sliced):
        numbers = take_piece(numbers, layout.cut, place.rank, place.ranks)
    dropped = torch.as_tensor(value.op.dropped(numbers, seed), device=x.device)
    wide = wide_dtype(value.type.dtype)
    scaled = x.to(torch_dtype(wide)) * place.scalar(value.op.scale, wide)
    kept = torch.where(dropped, place.scalar(0.0, wide), scaled)
    return kept.to(x.dtype)


def _aligned(
    place: Place, value: Value, operands: tuple[Operand, ...], dtype: DType
) -> list[Tensor]:
    """Return the parts of the operands that meet this rank's part of the result."""
    shape, layout = place.shape(value), value.type.layout
    parts: list[Tensor] = []
    for source, operand in zip(value.inputs, operands, strict=True):
        if not isinstance(operand, Tensor):
            parts.append(place.scalar(operand, dtype))
        elif isinstance(layout, Sliced) and isinstance(source.type.layout, Replicated):
            parts.append(_part_beside(place, operand, shape, layout.cut))
        else:
            parts.append(operand)
    return parts


def _part_beside(place: Place, x: Tensor, shape: tuple[int, ...], cut: Cut) -> Tensor:
    """Return what a rank needs of a Replicated operand beside pieces of `shape`."""
    if not isinstance(cut, int):
        return place.piece(x.expand(shape), cut)
    dim = cut - (len(shape) - x.dim())
    if dim < 0 or x.shape[dim] == 1 != shape[cut]:
        return x  # broadcast along the cut
    return place.piece(x, dim)


def _wrapping(call: Call) -> Call:
    def on_signed(*operands: Tensor) -> Tensor:
        result = call(*(as_signed(x) for x in operands))
        return result.view(operands[0].dtype)

    return on_signed


def _comparing(call: Call) -> Call:
    def on_ordered(*operands: Tensor) -> Tensor:
        if operands[0].is_floating_point():
            return call(*operands)
        return call(*(in_order(x, is_nan_largest=True) for x in operands))

    return on_ordered


def _minimum(a: Tensor, b: Tensor) -> Tensor:
    ordered = (in_order(x, is_nan_largest=False) for x in (a, b))
    return out_of_order(torch.minimum(*ordered), a.dtype)


def _maximum(a: Tensor, b: Tensor) -> Tensor:
    ordered = (in_order(x, is_nan_largest=True) for x in (a, b))
    return out_of_order(torch.maximum(*ordered), a.dtype)


def _clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return _minimum(_maximum(x, low), high)


def _relu(x: Tensor) -> Tensor:
    return _maximum(x, x.new_zeros(()))


def _sqrt(x: Tensor) -> Tensor:
    if x.device.type != "cpu":
        return torch.sqrt(x)
    # torch's is MKL's there, one ulp off for 0.6 % of f32 (measured with torch 2.13)
    with np.errstate(invalid="ignore"):
        return _torch.from_numpy(np.asarray(np.sqrt(x.numpy())))


def _rsqrt(x: Tensor) -> Tensor:
    return torch.div(x.new_ones(()), _sqrt(x))


def _bits(x: Tensor) -> Tensor:
    return x.view(torch.int32 if x.dtype is torch.float32 else torch.int64)


def _from_bits(x: Tensor) -> Tensor:
    return x.view(torch.float32 if x.dtype is torch.int32 else torch.float64)


_PRIMITIVES: dict[str, Call] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "abs": torch.abs,
    "lt": torch.lt,
    "le": torch.le,
    "eq": torch.eq,
    "ne": torch.ne,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "not": torch.logical_not,
    "select": torch.where,
    "bits": _bits,
    "from_bits": _from_bits,
    "bit_and": torch.bitwise_and,
    "bit_or": torch.bitwise_or,
    "bit_xor": torch.bitwise_xor,
    "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift,
}
"""Primitive -> torch, on floats and signed integers: what expansions are made of."""


class _TensorArithmetic:
    """Applies primitives to tensors, so that expansions have the interpreter's bits."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def apply(
        self, primitive: str, *args: Tensor, dtype: DType | None = None
    ) -> Tensor:
        if primitive == "cast":
            assert dtype is not None
            return args[0].to(torch_dtype(dtype))
        return _PRIMITIVES[primitive](*args)

    def literal(self, value: float | int, dtype: DType) -> Tensor:
        return torch.tensor(value, dtype=torch_dtype(dtype), device=self.device)


def _expanded(name: str) -> Call:
    def call(*operands: Tensor) -> Tensor:
        dtype = f32 if operands[0].dtype is torch.float32 else f64
        return expand(name, _TensorArithmetic(operands[0].device), dtype, *operands)

    return call


POINTWISE: dict[str, Call] = {
    "add": _wrapping(torch.add),
    "sub": _wrapping(torch.sub),
    "mul": _wrapping(torch.mul),
    "div": torch.div,
    "neg": torch.neg,
    "abs": torch.abs,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "relu": _relu,
    "minimum": _minimum,
    "maximum": _maximum,
    "clamp": _clamp,
    "less": _comparing(torch.lt),
    "less_equal": _comparing(torch.le),
    "greater": _comparing(torch.gt),
    "greater_equal": _comparing(torch.ge),
    "equal": _comparing(torch.eq),
    "not_equal": _comparing(torch.ne),
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_not": torch.logical_not,
    **{name: _expanded(name) for name in EXPANSIONS},
}
"""Name of an element-wise op on tensors -> torch."""

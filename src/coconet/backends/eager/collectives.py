"""Collectives as calls of torch.distributed, whatever its engine.

Engines differ in what they take, so they get what all take: equal blocks (the last ones
padded), plain bytes where nothing is computed, and numbers that every engine reduces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from coconet.backends.eager.order import as_signed, in_order, out_of_order
from coconet.backends.eager.place import Place, torch_dtype
from coconet.ir import Domain, DType, Sliced, Value
from coconet.ops import AllReduce, ReduceScatter
from coconet.ops.elementwise import wide_dtype

__all__ = ["all_gather", "all_reduce", "gather_pieces", "reduce_scatter"]

_distributed: Any = torch.distributed  # it annotates few parameters

_ENGINE_OPS: dict[str, Any] = {
    "sum": _distributed.ReduceOp.SUM,
    "mean": _distributed.ReduceOp.SUM,
    "prod": _distributed.ReduceOp.PRODUCT,
    "max": _distributed.ReduceOp.MAX,
    "min": _distributed.ReduceOp.MIN,
}


def all_reduce(place: Place, value: Value, x: Tensor) -> Tensor:
    """Combine a copy in place."""
    assert isinstance(value.op, AllReduce)

    def exchange(whole: Tensor, op: Any) -> Tensor:
        total = whole.clone(memory_format=torch.contiguous_format)
        if place.exchanges(value):
            _distributed.all_reduce(total, op, group=place.group)
        return total

    return _combined(place, value.op.op, value.type.dtype, x, exchange)


def reduce_scatter(place: Place, value: Value, x: Tensor) -> Tensor:
    """Combine equal blocks, one for each rank, and drop the padding."""
    assert isinstance(value.op, ReduceScatter)
    cut = value.op.cut
    domain = Domain.of(place.shape(value), cut)
    ranks, step = place.ranks, domain.piece(0, place.ranks)[1]

    def exchange(whole: Tensor, op: Any) -> Tensor:
        if not place.exchanges(value):
            return place.piece(whole, cut)
        split = whole.reshape(domain.outer, domain.extent, domain.inner)
        columns = _padded(split, ranks * step)
        starts = range(0, ranks * step, step)
        blocks = [columns[:, i : i + step].contiguous() for i in starts]
        mine = torch.empty_like(blocks[0])
        _distributed.reduce_scatter(mine, blocks, op, group=place.group)
        lo, hi = domain.piece(place.rank, ranks)
        return mine[:, : hi - lo].reshape(place.stored_shape(value))

    return _combined(place, value.op.op, value.type.dtype, x, exchange)


def all_gather(place: Place, value: Value, x: Tensor) -> Tensor:
    """Return the whole tensor of which every rank has a piece."""
    return gather_pieces(place, value.inputs[0], x)


def gather_pieces(place: Place, source: Value, x: Tensor) -> Tensor:
    """Exchange equal blocks of bytes and drop the padding."""
    layout = source.type.layout
    assert isinstance(layout, Sliced)  # infer refused anything else
    shape = place.shape(source)
    if not place.exchanges(source):
        return x.reshape(shape)
    domain = Domain.of(shape, layout.cut)
    lo, hi = domain.piece(place.rank, place.ranks)
    split = x.reshape(domain.outer, hi - lo, domain.inner)
    mine = _padded(split, domain.piece(0, place.ranks)[1]).view(torch.uint8)
    blocks = mine.new_empty(place.ranks, *mine.shape)
    _distributed.all_gather(list(blocks.unbind()), mine, group=place.group)
    columns = blocks.transpose(0, 1).flatten(1, 2)[:, : domain.extent]
    return columns.contiguous().view(x.dtype).reshape(shape)


def _combined(
    place: Place,
    op: str,
    dtype: DType,
    x: Tensor,
    exchange: Callable[[Tensor, Any], Tensor],
) -> Tensor:
    """Reduce over ranks in the wide dtype; a mean is divided once, at the end."""
    wide = x.to(torch_dtype(wide_dtype(dtype)))
    engine_op = _ENGINE_OPS[op]
    if op in ("max", "min"):
        ordered = exchange(in_order(wide, is_nan_largest=op == "max"), engine_op)
        total = out_of_order(ordered, wide.dtype)
    else:
        total = exchange(as_signed(wide), engine_op).view(wide.dtype)
    if op == "mean":
        total = total / place.scalar(place.ranks, wide_dtype(dtype))
    return total.to(x.dtype)


def _padded(x: Tensor, extent: int) -> Tensor:
    """Return x, contiguous, with its middle dim made this long."""
    outer, length, inner = x.shape
    if length == extent:
        return x.contiguous()
    padded = x.new_zeros(outer, extent, inner)
    padded[:, :length] = x
    return padded

"""Reductions over elements, and views, as each rank computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from coconet.backends.eager.collectives import gather_pieces
from coconet.backends.eager.place import Place
from coconet.backends.eager.tensors import as_array, as_tensor
from coconet.ir import Replicated, Sliced, Value
from coconet.ops import Concat, Index, Ranked, Reduce, Transpose

__all__ = ["concat", "index", "reduce", "reshape", "transpose"]

_torch: Any = torch  # torch annotates few parameters


def reduce(place: Place, value: Value, x: Tensor) -> Tensor:
    """Fold by the fixed tree, which numpy evaluates; pieces are exchanged first."""
    op, (source,) = value.op, value.inputs
    assert isinstance(op, Reduce)
    layout, position, parts = source.type.layout, 0, [x]
    if isinstance(layout, Sliced) and isinstance(value.type.layout, Replicated):
        whole = gather_pieces(place, source, x)
        position = place.rank
        parts = [place.piece_of(whole, layout.cut, q) for q in range(place.ranks)]
    type_ = replace(source.type, shape=place.shape(source))
    arrays = tuple(as_array(part.detach().cpu()) for part in parts)
    folds = op.reference(Ranked(type_, arrays))
    return as_tensor(folds[position]).to(place.device)


def transpose(place: Place, value: Value, x: Tensor) -> Tensor:
    """Put the dims in another order."""
    assert isinstance(value.op, Transpose)
    return x.permute(value.op.order)


def index(place: Place, value: Value, x: Tensor) -> Tensor:
    """Take a part along a dim."""
    op = value.op
    assert isinstance(op, Index)
    if op.length is None:
        return x.select(op.dim, op.start)
    return x.narrow(op.dim, op.start, op.length)


def reshape(place: Place, value: Value, x: Tensor) -> Tensor:
    """Give this rank's part its shape."""
    return x.reshape(place.stored_shape(value))


def concat(place: Place, value: Value, *parts: Tensor) -> Tensor:
    """Put the parts one after the other."""
    assert isinstance(value.op, Concat)
    return _torch.cat(parts, value.op.dim)

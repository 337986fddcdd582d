"""Every op as a function of the operands on this rank."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from coconet.backends.eager.collectives import all_gather, all_reduce, reduce_scatter
from coconet.backends.eager.place import Place
from coconet.backends.eager.pointwise import cast, dropout, elementwise, where
from coconet.backends.eager.rows import (
    concat,
    index,
    reduce,
    reshape,
    transpose,
)
from coconet.ir import Value
from coconet.ops import (
    AllGather,
    AllReduce,
    Cast,
    Concat,
    Dropout,
    Elementwise,
    Index,
    Op,
    Reduce,
    ReduceScatter,
    Reshape,
    Slice,
    Transpose,
    Update,
    Where,
)

__all__ = ["CALLS"]


def slice_(place: Place, value: Value, x: Tensor) -> Tensor:
    """Take the piece; nothing is sent."""
    assert isinstance(value.op, Slice)
    return place.piece(x, value.op.cut)


def update(place: Place, value: Value, target: Tensor, x: Tensor) -> Tensor:
    """Return the new value; it is written when nobody reads the old one any more."""
    return x


CALLS: dict[type[Op], Callable[..., Tensor]] = {
    Elementwise: elementwise,
    Where: where,
    Cast: cast,
    Dropout: dropout,
    Slice: slice_,
    Reduce: reduce,
    Reshape: reshape,
    Transpose: transpose,
    Index: index,
    Concat: concat,
    Update: update,
    AllReduce: all_reduce,
    ReduceScatter: reduce_scatter,
    AllGather: all_gather,
}
"""Op class -> its call: where it runs, the value it makes, and its operands."""

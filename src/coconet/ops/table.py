"""Every op there is."""

from __future__ import annotations

from coconet.ops.all_gather import AllGather
from coconet.ops.all_reduce import AllReduce
from coconet.ops.cast import Cast
from coconet.ops.concat import Concat
from coconet.ops.dropout import Dropout
from coconet.ops.elementwise import Elementwise
from coconet.ops.index import Index
from coconet.ops.input import Input, Literal
from coconet.ops.op import Op
from coconet.ops.reduce import Reduce
from coconet.ops.reduce_scatter import ReduceScatter
from coconet.ops.reshape import Reshape
from coconet.ops.select import Where
from coconet.ops.slice_ import Slice
from coconet.ops.transpose import Transpose
from coconet.ops.update import Update

__all__ = ["OPS"]

OPS: tuple[type[Op], ...] = (
    Input,
    Literal,
    Elementwise,
    Where,
    Cast,
    Dropout,
    Slice,
    Reduce,
    Reshape,
    Transpose,
    Index,
    Concat,
    AllReduce,
    ReduceScatter,
    AllGather,
    Update,
)

"""Every op there is."""

from __future__ import annotations

from coconet.ops.all_gather import AllGather
from coconet.ops.all_reduce import AllReduce
from coconet.ops.cast import Cast
from coconet.ops.elementwise import Elementwise
from coconet.ops.input import Input, Literal
from coconet.ops.op import Op
from coconet.ops.reduce_scatter import ReduceScatter
from coconet.ops.select import Where
from coconet.ops.slice_ import Slice
from coconet.ops.update import Update

__all__ = ["OPS"]

OPS: tuple[type[Op], ...] = (
    Input,
    Literal,
    Elementwise,
    Where,
    Cast,
    Slice,
    AllReduce,
    ReduceScatter,
    AllGather,
    Update,
)

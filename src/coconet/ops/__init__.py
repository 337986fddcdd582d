"""What programs are made of: one op, one file."""

from coconet.ops.all_gather import AllGather, all_gather
from coconet.ops.all_reduce import AllReduce, all_reduce
from coconet.ops.cast import Cast, cast
from coconet.ops.elementwise import ELEMENTWISE, Elementwise, elementwise_function
from coconet.ops.input import Input, Literal
from coconet.ops.op import Emitter, Op, Ranked
from coconet.ops.pieces import join_pieces, take_piece
from coconet.ops.reduce_scatter import ReduceScatter, reduce_scatter
from coconet.ops.select import Where, where
from coconet.ops.slice_ import Slice, slice_
from coconet.ops.table import OPS
from coconet.ops.update import Update, update

__all__ = [
    "ELEMENTWISE",
    "OPS",
    "AllGather",
    "AllReduce",
    "Cast",
    "Elementwise",
    "Emitter",
    "Input",
    "Literal",
    "Op",
    "Ranked",
    "ReduceScatter",
    "Slice",
    "Update",
    "Where",
    "all_gather",
    "all_reduce",
    "cast",
    "elementwise_function",
    "join_pieces",
    "reduce_scatter",
    "slice_",
    "take_piece",
    "update",
    "where",
]

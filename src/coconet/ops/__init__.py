"""What programs are made of: one op, one file."""

from coconet.ops.all_gather import AllGather, all_gather
from coconet.ops.all_reduce import AllReduce, all_reduce
from coconet.ops.cast import Cast, cast
from coconet.ops.concat import Concat, concat
from coconet.ops.dropout import Dropout, dropout
from coconet.ops.elementwise import ELEMENTWISE, Elementwise, elementwise_function
from coconet.ops.index import Index, index
from coconet.ops.input import Input, Literal
from coconet.ops.op import Emitter, Op, Ranked
from coconet.ops.pieces import join_pieces, take_piece
from coconet.ops.reduce import (
    REDUCTIONS,
    Reduce,
    max_,
    mean,
    min_,
    norm,
    prod,
    sum_,
)
from coconet.ops.reduce_scatter import ReduceScatter, reduce_scatter
from coconet.ops.reshape import Reshape, reshape
from coconet.ops.select import Where, where
from coconet.ops.slice_ import Slice, slice_
from coconet.ops.table import OPS
from coconet.ops.transpose import Transpose, transpose
from coconet.ops.update import Update, update

__all__ = [
    "ELEMENTWISE",
    "OPS",
    "REDUCTIONS",
    "AllGather",
    "AllReduce",
    "Cast",
    "Concat",
    "Dropout",
    "Elementwise",
    "Emitter",
    "Index",
    "Input",
    "Literal",
    "Op",
    "Ranked",
    "Reduce",
    "ReduceScatter",
    "Reshape",
    "Slice",
    "Transpose",
    "Update",
    "Where",
    "all_gather",
    "all_reduce",
    "cast",
    "concat",
    "dropout",
    "elementwise_function",
    "index",
    "join_pieces",
    "max_",
    "mean",
    "min_",
    "norm",
    "prod",
    "reduce_scatter",
    "reshape",
    "slice_",
    "sum_",
    "take_piece",
    "transpose",
    "update",
    "where",
]

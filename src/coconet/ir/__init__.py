"""What a program is: values with shape, dtype, layout and group.  Immutable."""

from coconet.ir.dtype import (
    DTYPES,
    DType,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    u8,
    u32,
    u64,
)
from coconet.ir.group import Group
from coconet.ir.layout import (
    FLAT,
    ROWS,
    Cut,
    Domain,
    Layout,
    Local,
    Replicated,
    Rooted,
    Sliced,
)
from coconet.ir.location import Location
from coconet.ir.program import Fusion, Program, same_program
from coconet.ir.rewrite import Moved, Rewrite, Rewriter
from coconet.ir.shape import Dim, Extent, Shape, bind_shape, dims, numel
from coconet.ir.types import TensorType, scalar_type
from coconet.ir.value import Operation, Value, needed_by, said
from coconet.ir.work import Work

__all__ = [
    "DTYPES",
    "FLAT",
    "ROWS",
    "Cut",
    "DType",
    "Dim",
    "Domain",
    "Extent",
    "Fusion",
    "Group",
    "Layout",
    "Local",
    "Location",
    "Moved",
    "Operation",
    "Program",
    "Replicated",
    "Rewrite",
    "Rewriter",
    "Rooted",
    "Shape",
    "Sliced",
    "TensorType",
    "Value",
    "Work",
    "bf16",
    "bind_shape",
    "bool_",
    "dims",
    "f16",
    "f32",
    "f64",
    "i8",
    "i32",
    "i64",
    "needed_by",
    "numel",
    "said",
    "same_program",
    "scalar_type",
    "u8",
    "u32",
    "u64",
]

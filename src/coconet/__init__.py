"""Distributed ML computations, stated once and scheduled by checked transformations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coconet.api import compile, empty, init, spawn, verify, zeros
from coconet.dsl import Tensor, program, scalar, tensor
from coconet.errors import CoconetError
from coconet.ir import (
    FLAT,
    ROWS,
    DType,
    Group,
    Local,
    Program,
    Replicated,
    Rooted,
    Sliced,
    bf16,
    bool_,
    dims,
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
from coconet.ops import (
    all_gather,
    all_reduce,
    cast,
    reduce_scatter,
    slice_,
    update,
    where,
)
from coconet.ops.functions import (
    abs_,
    clamp,
    equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    relu,
    rsqrt,
    sqrt,
)

if TYPE_CHECKING:
    from coconet.schedule import Draft, Schedule
    from coconet.schedule.library import library

__all__ = [
    "FLAT",
    "ROWS",
    "CoconetError",
    "DType",
    "Draft",
    "Group",
    "Local",
    "Program",
    "Replicated",
    "Rooted",
    "Schedule",
    "Sliced",
    "Tensor",
    "abs_",
    "all_gather",
    "all_reduce",
    "bf16",
    "bool_",
    "cast",
    "clamp",
    "compile",
    "dims",
    "empty",
    "equal",
    "f16",
    "f32",
    "f64",
    "i8",
    "i32",
    "i64",
    "init",
    "library",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "not_equal",
    "program",
    "reduce_scatter",
    "relu",
    "rsqrt",
    "scalar",
    "slice_",
    "spawn",
    "sqrt",
    "tensor",
    "u8",
    "u32",
    "u64",
    "update",
    "verify",
    "where",
    "zeros",
]

_LATER = {
    "Draft": "coconet.schedule",
    "Schedule": "coconet.schedule",
    "library": "coconet.schedule.library",
}
"""Names found when they are first asked for: `import coconet` stays fast."""


def __getattr__(name: str) -> object:
    """Import the module that has a name of `_LATER`."""
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module 'coconet' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value

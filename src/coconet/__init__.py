"""Distributed ML computations, stated once and scheduled by checked transformations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coconet.api import compile, empty, explain, init, spawn, tune, verify, zeros
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
    same_program,
    u8,
    u32,
    u64,
)
from coconet.ops import (
    all_gather,
    all_reduce,
    cast,
    concat,
    dropout,
    index,
    max_,
    mean,
    min_,
    norm,
    prod,
    reduce_scatter,
    reshape,
    slice_,
    sum_,
    transpose,
    update,
    where,
)
from coconet.ops.composites import layer_norm, rms_norm, softmax
from coconet.ops.functions import (
    abs_,
    clamp,
    cos,
    equal,
    erf,
    exp,
    gelu,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sin,
    sqrt,
    tanh,
)

if TYPE_CHECKING:
    from coconet.schedule import Draft, Schedule
    from coconet.schedule.library import library
    from coconet.schedule.text import parse_program, parse_schedule

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
    "concat",
    "cos",
    "dims",
    "dropout",
    "empty",
    "equal",
    "erf",
    "exp",
    "explain",
    "f16",
    "f32",
    "f64",
    "gelu",
    "i8",
    "i32",
    "i64",
    "index",
    "init",
    "layer_norm",
    "library",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "max_",
    "maximum",
    "mean",
    "min_",
    "minimum",
    "norm",
    "not_equal",
    "parse_program",
    "parse_schedule",
    "prod",
    "program",
    "reduce_scatter",
    "relu",
    "reshape",
    "rms_norm",
    "rsqrt",
    "same_program",
    "scalar",
    "sigmoid",
    "silu",
    "sin",
    "slice_",
    "softmax",
    "spawn",
    "sqrt",
    "sum_",
    "tanh",
    "tensor",
    "transpose",
    "tune",
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
    "parse_program": "coconet.schedule.text",
    "parse_schedule": "coconet.schedule.text",
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

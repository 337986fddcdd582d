"""Reductions over ranks: in rank order from position 0, in a wide enough type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError, LayoutError
from coconet.ir import DType, Local, Replicated, TensorType, bool_
from coconet.ops.elementwise import wide_dtype
from coconet.ops.op import Emitter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coconet.plan import Constant, Register

    Array = NDArray[Any]

__all__ = ["COMBINERS", "check_combine", "combine_arrays", "lower_combine"]

COMBINERS = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}
"""Reduction op of a collective -> the primitive that folds two ranks."""


def check_combine(name: str, op: str, x: TensorType) -> None:
    """Raise if the value is not Local or the reduction has no meaning for its dtype."""
    if op not in COMBINERS:
        raise ValueError(f"{name} reduces by {', '.join(COMBINERS)}, got {op!r}")
    if isinstance(x.layout, Replicated):
        raise LayoutError(
            f"{name} combines different values, and this one is already Replicated",
            got=x,
            need="Local",
            fix="use x itself, or x * group size if that was meant",
        )
    if not isinstance(x.layout, Local):
        raise LayoutError(
            f"{name} combines different values",
            got=x,
            need="Local",
            fix="all_gather(x) if x is Sliced",
        )
    if x.dtype is bool_ or (op == "mean" and not x.dtype.is_float):
        raise DtypeError(
            f"{name} by {op} has no meaning for {x.dtype}",
            got=x.dtype,
            need="a float dtype" if op == "mean" else "numbers",
            fix="cast(x, f32)",
        )


def combine_arrays(op: str, arrays: Sequence[Array]) -> Array:
    """Return the reduction over ranks of equal-shaped arrays."""
    import numpy as np

    from coconet.plan import PRIMITIVES

    dtype = arrays[0].dtype
    known = DType.of(dtype)
    assert known is not None  # interp checks arguments
    wide = wide_dtype(known).numpy
    fold = PRIMITIVES[COMBINERS[op]].array
    with np.errstate(all="ignore"):
        total = arrays[0].astype(wide)
        for array in arrays[1:]:
            total = fold(total, array.astype(wide))
        if op == "mean":
            total = total / wide.type(len(arrays))
        return np.asarray(total).astype(dtype)


def lower_combine(tile: Emitter, op: str, x: TensorType) -> Register | Constant:
    """Return the reduction over ranks of one element."""
    wide = wide_dtype(x.dtype)
    parts = tile.operand_of_each_rank(0)
    if wide is not x.dtype:
        parts = tuple(tile.apply("cast", part, dtype=wide) for part in parts)
    total = parts[0]
    for part in parts[1:]:
        total = tile.apply(COMBINERS[op], total, part)
    if op == "mean" and tile.ranks > 1:
        total = tile.apply("div", total, tile.literal(float(tile.ranks), wide))
    return total if wide is x.dtype else tile.apply("cast", total, dtype=x.dtype)

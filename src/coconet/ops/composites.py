"""Functions written with the ops alone; 16-bit floats are computed in f32.

They are cast once on entry and once back at the end: rounded at each op, a softmax of
bf16 is off by some percent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coconet.ops.cast import cast
from coconet.ops.elementwise import wide_dtype
from coconet.ops.functions import exp, rsqrt
from coconet.ops.op import Operand
from coconet.ops.reduce import Dims, max_, mean, sum_

__all__ = ["layer_norm", "rms_norm", "softmax"]


def softmax(x: Any, dim: int = -1) -> Any:
    """Return exp(x - max) by its sum along a dim, which no cut may cross.

    Shape, layout and dtype as x.  Raises what Reduce raises.
    """
    return _in_f32(x, lambda wide: _softmax(wide, dim))


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, *, dim: Dims = -1, eps: float = 1e-5
) -> Any:
    """Return (x - mean) / sqrt(variance + eps) along dims, then * weight + bias.

    The variance is the mean of the squares of x - mean.  weight and bias broadcast to
    x; in other dtypes they are cast.
    Shape, layout and dtype as x.  Raises what Reduce raises.
    """
    return _in_f32(x, lambda wide: _layer_norm(wide, weight, bias, dim, eps))


def rms_norm(x: Any, weight: Any = None, *, dim: Dims = -1, eps: float = 1e-6) -> Any:
    """Return x / sqrt(mean of squares + eps) along dims, then * weight.

    weight broadcasts to x; in another dtype it is cast.
    Shape, layout and dtype as x.  Raises what Reduce raises.
    """

    def normed(wide: Any) -> Any:
        return _scaled(wide * rsqrt(mean(wide * wide, dim, True) + eps), weight)

    return _in_f32(x, normed)


def _softmax(x: Any, dim: int) -> Any:
    weights = exp(x - max_(x, dim, True))
    return weights / sum_(weights, dim, True)


def _layer_norm(x: Any, weight: Any, bias: Any, dim: Dims, eps: float) -> Any:
    centred = x - mean(x, dim, True)
    normed = centred * rsqrt(mean(centred * centred, dim, True) + eps)
    scaled = _scaled(normed, weight)
    return scaled if bias is None else scaled + _as(bias, scaled)


def _scaled(x: Any, weight: Any) -> Any:
    return x if weight is None else x * _as(weight, x)


def _as(operand: Any, x: Any) -> Any:
    """Return an operand in the dtype of what it meets."""
    is_other = isinstance(operand, Operand) and operand.type.dtype != x.type.dtype
    return cast(operand, x.type.dtype) if is_other else operand


def _in_f32(x: Any, function: Callable[[Any], Any]) -> Any:
    if not isinstance(x, Operand):
        raise TypeError(f"needs a tensor of a program, got {type(x).__name__}")
    dtype = x.type.dtype
    wide = wide_dtype(dtype)

    def widened(x: Any) -> Any:
        return cast(function(cast(x, wide)), dtype)

    return x.as_one(function if wide is dtype else widened)

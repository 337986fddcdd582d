"""Primitives: the arithmetic of plans, defined once for numpy and for one number.

Every element-wise op is written with these.  A backend prints each; numpy evaluates the
same ones, so both round at the same places.  Scalar expressions are evaluated here, in
f64 or i64, once per call, by the interpreter and by every backend alike.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "PRIMITIVES",
    "Number",
    "Primitive",
    "ScalarExpr",
    "evaluate_scalars",
    "round_array",
    "to_dtype",
    "to_scalar",
]

Number = float | int


@dataclass(frozen=True, slots=True)
class Primitive:
    """One operation of plans.

    name    as plans print it
    arity   the number of arguments
    array   the meaning, on numpy arrays of one dtype
    number  the meaning on Python numbers, IEEE where Python raises; None: no scalars
    result  "same": the arguments' dtype; "bool"; "cast": the register's own
    """

    name: str
    arity: int
    array: Callable[..., Any]
    number: Callable[..., Number] | None
    result: str = "same"


@dataclass(frozen=True, slots=True)
class ScalarExpr:
    """A scalar of a plan: an argument, a literal, or a primitive of earlier ones.

    kind   "argument" (value: its number), "literal" (value: the number) or a primitive
    args   numbers of earlier expressions
    is_int whether it is i64 rather than f64
    """

    kind: str
    value: Number
    args: tuple[int, ...]
    is_int: bool


def evaluate_scalars(
    exprs: Sequence[ScalarExpr], arguments: Sequence[Number]
) -> list[Number]:
    """Evaluate scalar expressions in order; f64 ones give floats, i64 ones ints."""
    results: list[Number] = []
    for expr in exprs:
        if expr.kind == "argument":
            value = arguments[int(expr.value)]
        elif expr.kind == "literal":
            value = expr.value
        else:
            function = PRIMITIVES[expr.kind].number
            assert function is not None  # the builder refuses such expressions
            value = function(*(results[number] for number in expr.args))
        results.append(to_scalar(value, is_int=expr.is_int))
    return results


def to_scalar(value: Number, *, is_int: bool) -> Number:
    """Return a number as an i64 scalar, which wraps, or as an f64 one."""
    return _wrap(int(value), 64) if is_int else float(value)


def to_dtype(number: Number, dtype: np.dtype[Any]) -> Any:
    """Round a scalar to the dtype of the tensor that it meets."""
    import numpy as np

    if dtype.kind in "iu":
        bits = dtype.itemsize * 8
        return np.array(_wrap(int(number), bits), np.int64).astype(dtype)[()]
    wide = np.int64(number) if isinstance(number, int) else np.float64(number)
    return round_array(wide, dtype)


def round_array(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return numpy numbers in another dtype; to 16-bit floats they go through f32."""
    import numpy as np

    with np.errstate(all="ignore"):
        if dtype.itemsize == 2 and dtype.kind not in "iu":
            array = array.astype(np.float32)
        return array.astype(dtype)


def _wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _divide(a: Number, b: Number) -> float:
    a, b = float(a), float(b)
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _power(a: Number, b: Number) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        is_odd = float(b).is_integer() and int(b) % 2 == 1
        return -math.inf if a < 0 and is_odd else math.inf
    except ValueError:
        # a zero to a negative power is infinite, a negative to a fraction is no number
        if a != 0:
            return math.nan
        is_odd = float(b).is_integer() and int(b) % 2 == 1
        return math.copysign(math.inf, a) if is_odd else math.inf


def _negative(a: Number) -> Number:
    return -a


def _absolute(a: Number) -> Number:
    return abs(a)


def _sqrt(a: Number) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


def _minimum(a: Number, b: Number) -> Number:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b:
        return a if math.copysign(1.0, a) < 0 else b
    return a if a < b else b


def _maximum(a: Number, b: Number) -> Number:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b:
        return b if math.copysign(1.0, a) < 0 else a
    return a if a > b else b


def _numpy(name: str) -> Callable[..., Any]:
    def call(*arrays: Array) -> Array:
        import numpy as np

        return getattr(np, name)(*arrays)

    return call


def _array_minimum(a: Array, b: Array) -> Array:
    import numpy as np

    return _ordered(a, b, np.less, np.signbit)


def _array_maximum(a: Array, b: Array) -> Array:
    import numpy as np

    return _ordered(a, b, np.greater, _is_positive)


def _is_positive(x: Array) -> Array:
    import numpy as np

    return ~np.signbit(x)


def _ordered(a: Array, b: Array, first: Any, prefer: Any) -> Array:
    """Return the one that comes first; NaN wins; among zeros the preferred sign."""
    import numpy as np

    result = np.where(first(a, b), a, b)
    if np.asarray(result).dtype.kind == "f":
        result = np.where((a == b) & prefer(a), a, result)
        result = np.where(np.isnan(a), a, result)
    return result


def _array_divide(a: Array, b: Array) -> Array:
    import numpy as np

    return np.divide(a, b)


def _array_cast(a: Array) -> Array:
    return a  # the executor rounds to the register's dtype


_TABLE = (
    Primitive("add", 2, _numpy("add"), operator.add),
    Primitive("sub", 2, _numpy("subtract"), operator.sub),
    Primitive("mul", 2, _numpy("multiply"), operator.mul),
    Primitive("div", 2, _array_divide, _divide),
    Primitive("neg", 1, _numpy("negative"), _negative),
    Primitive("abs", 1, _numpy("absolute"), _absolute),
    Primitive("sqrt", 1, _numpy("sqrt"), _sqrt),
    Primitive("min", 2, _array_minimum, _minimum),
    Primitive("max", 2, _array_maximum, _maximum),
    Primitive("pow", 2, _numpy("power"), _power),
    Primitive("lt", 2, _numpy("less"), None, "bool"),
    Primitive("le", 2, _numpy("less_equal"), None, "bool"),
    Primitive("eq", 2, _numpy("equal"), None, "bool"),
    Primitive("ne", 2, _numpy("not_equal"), None, "bool"),
    Primitive("and", 2, _numpy("logical_and"), None, "bool"),
    Primitive("or", 2, _numpy("logical_or"), None, "bool"),
    Primitive("not", 1, _numpy("logical_not"), None, "bool"),
    Primitive("select", 3, _numpy("where"), None),
    Primitive("cast", 1, _array_cast, None, "cast"),
)

PRIMITIVES = {primitive.name: primitive for primitive in _TABLE}

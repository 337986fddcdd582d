"""Primitives: the arithmetic of plans, defined once for numpy and for one number.

Every element-wise op is written with these.  A backend prints each; numpy evaluates the
same ones, so both round at the same places.  Scalar expressions are evaluated here, in
f64 or i64, once per call, by the interpreter and by every backend alike.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.ir import DType, Shape, bind_shape, numel
from coconet.plan.expansions import EXPANSIONS
from coconet.plan.expansions.recording import Recording

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "NUMBERS",
    "PRIMITIVES",
    "ArrayEmitter",
    "Number",
    "Primitive",
    "ScalarExpr",
    "evaluate_scalars",
    "on_numbers",
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
    number  the meaning on Python's floats, as f64, and ints, as i64
    result  "same": the arguments' dtype; "bool"; "cast": the register's own
    """

    name: str
    arity: int
    array: Callable[..., Any]
    number: Callable[..., Any]
    result: str = "same"


@dataclass(frozen=True, slots=True)
class ScalarExpr:
    """A scalar of a plan: an argument, a literal, or a primitive of earlier ones.

    kind   "argument" (value: its number), "literal" (value: the number), "numel" (of
           shape) or a name of NUMBERS
    args   numbers of earlier expressions
    is_int whether it is i64 rather than f64
    """

    kind: str
    value: Number
    args: tuple[int, ...]
    is_int: bool
    shape: Shape = ()


def evaluate_scalars(
    exprs: Sequence[ScalarExpr],
    arguments: Sequence[Number],
    sizes: Mapping[str, int],
) -> list[Number]:
    """Evaluate scalar expressions in order; f64 ones give floats, i64 ones ints.

    sizes gives each symbolic dim a number.
    """
    results: list[Number] = []
    for expr in exprs:
        if expr.kind == "argument":
            value = arguments[int(expr.value)]
        elif expr.kind == "literal":
            value = expr.value
        elif expr.kind == "numel":
            value = numel(bind_shape(expr.shape, sizes))
        else:
            value = NUMBERS[expr.kind](*(results[number] for number in expr.args))
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


def _select(condition: bool, a: Number, b: Number) -> Number:
    return a if condition else b


def _bits(a: float) -> int:
    return struct.unpack("<q", struct.pack("<d", a))[0]


def _from_bits(a: int) -> float:
    return struct.unpack("<d", struct.pack("<q", _wrap(a, 64)))[0]


def _shift_right(a: int, count: int) -> int:
    return _wrap(a, 64) >> count


def _mul_high(a: int, b: int) -> int:
    return a * b >> 32


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


def _array_bits(a: Array) -> Array:
    return _reinterpreted(a, "i")


def _array_from_bits(a: Array) -> Array:
    return _reinterpreted(a, "f")


def _array_mul_high(a: Array, b: Array) -> Array:
    import numpy as np

    product = np.multiply(a, b, dtype=np.uint64)
    return np.right_shift(product, np.uint64(32)).astype(np.uint32)


def _reinterpreted(a: Array, kind: str) -> Array:
    import numpy as np

    array = np.asarray(a)
    return array.view(np.dtype(f"{kind}{array.itemsize}"))


_bitwise: Any = operator  # it annotates few of these

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
    Primitive("lt", 2, _numpy("less"), operator.lt, "bool"),
    Primitive("le", 2, _numpy("less_equal"), operator.le, "bool"),
    Primitive("eq", 2, _numpy("equal"), operator.eq, "bool"),
    Primitive("ne", 2, _numpy("not_equal"), operator.ne, "bool"),
    Primitive("and", 2, _numpy("logical_and"), _bitwise.and_, "bool"),
    Primitive("or", 2, _numpy("logical_or"), _bitwise.or_, "bool"),
    Primitive("not", 1, _numpy("logical_not"), operator.not_, "bool"),
    Primitive("select", 3, _numpy("where"), _select),
    Primitive("cast", 1, _array_cast, float, "cast"),
    Primitive("bits", 1, _array_bits, _bits, "cast"),
    Primitive("from_bits", 1, _array_from_bits, _from_bits, "cast"),
    Primitive("bit_and", 2, _numpy("bitwise_and"), _bitwise.and_),
    Primitive("bit_or", 2, _numpy("bitwise_or"), _bitwise.or_),
    Primitive("bit_xor", 2, _numpy("bitwise_xor"), _bitwise.xor),
    Primitive("mul_high", 2, _array_mul_high, _mul_high),
    Primitive("shl", 2, _numpy("left_shift"), _bitwise.lshift),
    Primitive("shr", 2, _numpy("right_shift"), _shift_right),
)

PRIMITIVES = {primitive.name: primitive for primitive in _TABLE}
"""The last eight are for expansions, among them the bits of f32 and f64 as i32 and i64;
mul_high is the upper half of a product of u32."""


class ArrayEmitter:
    """Applies primitives to whole arrays, or to numpy's numbers, of one dtype."""

    ranks = 1

    def apply(self, primitive: str, *args: Any, dtype: DType | None = None) -> Any:
        """Apply one primitive; numpy rounds to the arrays' dtype."""
        result = PRIMITIVES[primitive].array(*args)
        if primitive == "cast" and dtype is not None:
            return round_array(result, dtype.numpy)
        return result

    def literal(self, value: float | int, dtype: DType) -> Any:
        """Return a literal of this dtype."""
        return to_dtype(value, dtype.numpy)


def on_numbers(name: str) -> Callable[..., Any]:
    """Return an expansion on numbers in f64, at about 10 us per call."""

    @functools.cache
    def recorded(arity: int) -> Recording:
        recording = Recording()
        EXPANSIONS[name](*(recording.operand() for _ in range(arity)))
        return recording

    def call(*numbers: Number) -> float:
        recording = recorded(len(numbers))
        values: list[Any] = recording.values.copy()
        values[: len(numbers)] = map(float, numbers)
        for slot, primitive, args in recording.steps:
            function = PRIMITIVES[primitive].number
            values[slot] = function(*[values[arg] for arg in args])
        return values[-1]

    return call


_SCALAR = ("add", "sub", "mul", "div", "neg", "abs", "sqrt", "min", "max", "pow")

NUMBERS: dict[str, Callable[..., Any]] = {
    **{name: on_numbers(name) for name in EXPANSIONS},
    **{name: PRIMITIVES[name].number for name in _SCALAR},
}
"""What scalars may be computed by: some primitives, and expansions in f64."""

"""How C writes types, literals and primitives."""

from __future__ import annotations

from math import isinf, isnan

from coconet.errors import UnsupportedError
from coconet.ir import DType
from coconet.plan.scalar import Number

__all__ = ["C_TYPES", "PRELUDE", "apply_text", "c_type", "literal_text"]

C_TYPES = {
    "f32": "float",
    "f64": "double",
    "i8": "int8_t",
    "u8": "uint8_t",
    "i32": "int32_t",
    "u32": "uint32_t",
    "i64": "int64_t",
    "u64": "uint64_t",
    "bool": "uint8_t",
}

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}

PRELUDE = """\
/* min and max: NaN wins, -0 < +0; equal numbers differ at most in the sign bit */
#define CC_ORDERED(name, type, bits, before, merge)                      \\
  static inline __attribute__((unused)) type name(type a, type b) {      \\
    type r = a before b ? a : b;                                         \\
    bits x, y;                                                           \\
    memcpy(&x, &a, sizeof x);                                            \\
    memcpy(&y, &b, sizeof y);                                            \\
    x = x merge y;                                                       \\
    type both;                                                           \\
    memcpy(&both, &x, sizeof both);                                      \\
    r = a == b ? both : r;                                               \\
    return a != a ? a : r;                                               \\
  }
CC_ORDERED(cc_min_f32, float, uint32_t, <, |)
CC_ORDERED(cc_max_f32, float, uint32_t, >, &)
CC_ORDERED(cc_min_f64, double, uint64_t, <, |)
CC_ORDERED(cc_max_f64, double, uint64_t, >, &)
"""


def c_type(dtype: DType) -> str:
    """Return the C type of an element.

    Raises UnsupportedError for 16-bit floats.
    """
    try:
        return C_TYPES[dtype.name]
    except KeyError:
        raise UnsupportedError(
            f"the C backend has no {dtype} yet",
            got=dtype,
            need=", ".join(C_TYPES),
            fix="the interpreter runs every dtype",
        ) from None


def literal_text(value: Number, dtype: DType) -> str:
    """Return a number, rounded to the dtype by the C compiler, as a C expression."""
    if not dtype.is_float:
        integer = bool(value) if dtype.kind == "bool" else value
        return f"(({c_type(dtype)})INT64_C({int(integer)}))"
    number = float(value)
    if isnan(number):
        text = '__builtin_nan("")'
    elif isinf(number):
        text = "__builtin_inf()" if number > 0 else "(-__builtin_inf())"
    elif isinstance(value, int):
        text = f"INT64_C({value})"
    else:
        text = number.hex()
    return f"(({c_type(dtype)}){text})"


def apply_text(primitive: str, args: list[str], dtype: DType, source: DType) -> str:
    """Return a primitive applied to C expressions.

    dtype is the result's, source the last argument's.
    """
    kind = c_type(dtype)
    if primitive in _COMPARE:
        return f"(uint8_t)({args[0]} {_COMPARE[primitive]} {args[1]})"
    if primitive == "not":
        return f"(uint8_t)!{args[0]}"
    if primitive == "select":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if primitive == "cast":
        return f"({kind}){args[0]}"
    if source.is_float:
        return _float_text(primitive, args, source)
    return _integer_text(primitive, args, kind, source)


def _float_text(primitive: str, args: list[str], dtype: DType) -> str:
    suffix = "f" if dtype.itemsize == 4 else ""
    if primitive in _INFIX:
        return f"{args[0]} {_INFIX[primitive]} {args[1]}"
    if primitive == "neg":
        return f"-{args[0]}"
    if primitive == "abs":
        return f"__builtin_fabs{suffix}({args[0]})"
    if primitive == "sqrt":
        return f"__builtin_sqrt{suffix}({args[0]})"
    if primitive in ("min", "max"):
        return f"cc_{primitive}_{dtype}({args[0]}, {args[1]})"
    raise UnsupportedError(f"the C backend cannot apply {primitive} to {dtype}")


def _integer_text(primitive: str, args: list[str], kind: str, dtype: DType) -> str:
    # unsigned arithmetic wraps; signed overflow would be undefined
    bits = dtype.itemsize * 8
    a, *rest = [f"(uint{max(bits, 32)}_t){arg}" for arg in args]
    if primitive in ("add", "sub", "mul"):
        return f"({kind})({a} {_INFIX[primitive]} {rest[0]})"
    if primitive == "neg":
        return f"({kind})(0 - {a})"
    if primitive == "abs":
        return f"{args[0]} < 0 ? ({kind})(0 - {a}) : {args[0]}"
    if primitive in ("min", "max"):
        sign = "<" if primitive == "min" else ">"
        return f"{args[0]} {sign} {args[1]} ? {args[0]} : {args[1]}"
    raise UnsupportedError(f"the C backend cannot apply {primitive} to {dtype}")

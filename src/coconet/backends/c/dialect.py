"""How C writes types, literals and primitives."""

from __future__ import annotations

from math import isinf, isnan

from coconet.errors import UnsupportedError
from coconet.ir import DType
from coconet.plan.scalar import Number

__all__ = [
    "C_TYPES",
    "PRELUDE",
    "apply_text",
    "c_type",
    "convert_text",
    "is_half",
    "literal_text",
]

C_TYPES = {
    "f16": "uint16_t",
    "bf16": "uint16_t",
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

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "shl": "<<"}
_BITWISE = {"bit_and": "&", "bit_or": "|", "bit_xor": "^", "shr": ">>"}
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

/* bits of floats, of the same width */
#define CC_REINTERPRETED(name, from, to)                                 \\
  static inline __attribute__((unused)) to name(from a) {                \\
    to r;                                                                \\
    memcpy(&r, &a, sizeof r);                                            \\
    return r;                                                            \\
  }
CC_REINTERPRETED(cc_bits_f32, float, int32_t)
CC_REINTERPRETED(cc_bits_f64, double, int64_t)
CC_REINTERPRETED(cc_from_bits_f32, int32_t, float)
CC_REINTERPRETED(cc_from_bits_f64, int64_t, double)
"""


def c_type(dtype: DType) -> str:
    """Return the C type in which an element is stored; 16-bit floats are their bits."""
    return C_TYPES[dtype.name]


def is_half(dtype: DType) -> bool:
    """Whether elements are 16-bit floats, on which C computes nothing directly."""
    return dtype.is_float and dtype.itemsize == 2


def convert_text(value: str, to: DType, source: DType | None = None) -> str:
    """Return a C expression converted to another dtype; to 16-bit floats via float.

    source is None for a C double or int64_t.
    """
    if source is not None and is_half(source):
        value = f"cc_from_{source}({value})"
    if is_half(to):
        return f"cc_to_{to}((float)({value}))"
    return f"({c_type(to)})({value})"


def literal_text(value: Number, dtype: DType) -> str:
    """Return a number, rounded to the dtype by the C compiler, as a C expression."""
    if not dtype.is_float:
        integer = int(bool(value) if dtype.kind == "bool" else value)
        return f"({convert_text(_int64_text(integer), dtype)})"
    number = float(value)
    if isnan(number):
        text = '__builtin_nan("")'
    elif isinf(number):
        text = "__builtin_inf()" if number > 0 else "(-__builtin_inf())"
    elif isinstance(value, int):
        text = _int64_text(value)
    else:
        text = number.hex()
    return f"({convert_text(text, dtype)})"


def _int64_text(value: int) -> str:
    """Return an i64; C has no negative literals, and the least has no opposite."""
    return "INT64_MIN" if value == -(1 << 63) else f"INT64_C({value})"


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
        return convert_text(args[0], dtype, source)
    if primitive in ("bits", "from_bits"):
        return f"cc_{primitive}_{source if source.is_float else dtype}({args[0]})"
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
    if primitive in _BITWISE:
        return f"({kind})({args[0]} {_BITWISE[primitive]} {args[1]})"
    # unsigned arithmetic wraps; signed overflow would be undefined
    bits = dtype.itemsize * 8
    a, *rest = [f"(uint{max(bits, 32)}_t){arg}" for arg in args]
    if primitive in ("add", "sub", "mul", "shl"):
        return f"({kind})({a} {_INFIX[primitive]} {rest[0]})"
    if primitive == "mul_high" and bits == 32:
        return f"({kind})((uint64_t){a} * {rest[0]} >> 32)"
    if primitive == "neg":
        return f"({kind})(0 - {a})"
    if primitive == "abs":
        return f"{args[0]} < 0 ? ({kind})(0 - {a}) : {args[0]}"
    if primitive in ("min", "max"):
        sign = "<" if primitive == "min" else ">"
        return f"{args[0]} {sign} {args[1]} ? {args[0]} : {args[1]}"
    raise UnsupportedError(f"the C backend cannot apply {primitive} to {dtype}")

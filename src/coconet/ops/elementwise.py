"""Element-wise operations: one class, and a table of what each name means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError
from coconet.ir import (
    Cut,
    DType,
    Replicated,
    Sliced,
    TensorType,
    Work,
    bool_,
    f32,
    f64,
    i64,
    scalar_type,
)
from coconet.ops.join import (
    broadcast_shapes,
    check_scalars,
    join_dtypes,
    join_layouts,
)
from coconet.ops.op import (
    Emitter,
    Op,
    Ranked,
    call_text,
    concrete_shape,
    one_group,
    pointwise_work,
)
from coconet.ops.pieces import take_piece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coconet.plan import Constant, Register

    Array = NDArray[Any]
    Operands = tuple[Register | Constant, ...]

__all__ = ["ELEMENTWISE", "Elementwise", "Meaning", "elementwise_function"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an element-wise op is made of.

    primitive  the plan primitive, where one suffices; of pow, that of scalars
    expand     else: the op written with several primitives
    symbol     Python's operator and how tightly it binds, or ("", 100)
    call       the function and its options, where the name does not say them
    kinds      the kinds of dtype it is defined for
    result     "same" as the operands, or "bool"
    scalars    whether it is defined for scalars
    doc        the first line of its function's docstring
    """

    arity: int
    doc: str
    primitive: str = ""
    expand: Callable[[Emitter, DType, Operands], Register] | None = None
    symbol: tuple[str, int] = ("", 100)
    kinds: tuple[str, ...] = ("float", "int", "uint")
    result: str = "same"
    scalars: bool = True
    call: tuple[str, str] | None = None


def _rsqrt(tile: Emitter, dtype: DType, x: Operands) -> Register:
    return tile.apply("div", tile.literal(1.0, dtype), tile.apply("sqrt", *x))


def _relu(tile: Emitter, dtype: DType, x: Operands) -> Register:
    return tile.apply("max", *x, tile.literal(0, dtype))


def _clamp(tile: Emitter, dtype: DType, x: Operands) -> Register:
    return tile.apply("min", tile.apply("max", x[0], x[1]), x[2])


def _greater(tile: Emitter, dtype: DType, x: Operands) -> Register:
    return tile.apply("lt", x[1], x[0])


def _greater_equal(tile: Emitter, dtype: DType, x: Operands) -> Register:
    return tile.apply("le", x[1], x[0])


def _expansion(name: str) -> Callable[[Emitter, DType, Operands], Register]:
    """Return an op that is one of the functions of plan/expansions."""

    def apply(tile: Emitter, dtype: DType, x: Operands) -> Register:
        from coconet.plan.expansions import expand

        return expand(name, tile, dtype, *x)

    return apply


def _function(name: str, doc: str, call: tuple[str, str] | None = None) -> Meaning:
    return Meaning(1, doc, expand=_expansion(name), kinds=_FLOAT, call=call)


_FLOAT = ("float",)
_SIGNED = ("float", "int")
_BOOL = ("bool",)

ELEMENTWISE: dict[str, Meaning] = {
    "add": Meaning(2, "Return a + b.", "add", symbol=("+", 11)),
    "sub": Meaning(2, "Return a - b.", "sub", symbol=("-", 11)),
    "mul": Meaning(2, "Return a * b.", "mul", symbol=("*", 12)),
    "div": Meaning(2, "Return a / b.", "div", symbol=("/", 12), kinds=_FLOAT),
    "neg": Meaning(1, "Return -a.", "neg", symbol=("-", 13), kinds=_SIGNED),
    "abs": Meaning(1, "Return the absolute value.", "abs", kinds=_SIGNED),
    "sqrt": Meaning(1, "Return the square root.", "sqrt", kinds=_FLOAT),
    "rsqrt": Meaning(
        1,
        "Return 1 / sqrt(a), rounded twice.",
        expand=_rsqrt,
        kinds=_FLOAT,
        scalars=False,
    ),
    "relu": Meaning(1, "Return max(a, 0).", expand=_relu, scalars=False),
    "minimum": Meaning(2, "Return the smaller; NaN wins, -0 < +0.", "min"),
    "maximum": Meaning(2, "Return the larger; NaN wins, -0 < +0.", "max"),
    "clamp": Meaning(3, "Return min(max(a, low), high).", expand=_clamp, scalars=False),
    "pow": Meaning(
        2,
        "Return a ** b, special cases as in C99.",
        "pow",
        expand=_expansion("pow"),
        symbol=("**", 14),
        kinds=_FLOAT,
    ),
    "exp": _function("exp", "Return e ** a."),
    "log": _function("log", "Return the natural logarithm."),
    "sin": _function("sin", "Return the sine of an angle in radians."),
    "cos": _function("cos", "Return the cosine of an angle in radians."),
    "tanh": _function("tanh", "Return the hyperbolic tangent."),
    "erf": _function("erf", "Return the error function."),
    "sigmoid": _function("sigmoid", "Return 1 / (1 + e ** -a)."),
    "silu": _function("silu", "Return a * sigmoid(a); at -inf its limit, -0."),
    "gelu": _function(
        "gelu", "Return a * (1 + erf(a / sqrt(2))) / 2; at -inf its limit, -0."
    ),
    "gelu_tanh": _function(
        "gelu_tanh",
        "Return PyTorch's gelu by tanh; at -inf its limit, -0.",
        call=("gelu", 'approximate="tanh"'),
    ),
    "less": Meaning(
        2, "Return a < b.", "lt", symbol=("<", 6), result="bool", scalars=False
    ),
    "less_equal": Meaning(
        2, "Return a <= b.", "le", symbol=("<=", 6), result="bool", scalars=False
    ),
    "greater": Meaning(
        2,
        "Return a > b.",
        expand=_greater,
        symbol=(">", 6),
        result="bool",
        scalars=False,
    ),
    "greater_equal": Meaning(
        2,
        "Return a >= b.",
        expand=_greater_equal,
        symbol=(">=", 6),
        result="bool",
        scalars=False,
    ),
    "equal": Meaning(
        2, "Return a == b, element by element.", "eq", result="bool", scalars=False
    ),
    "not_equal": Meaning(
        2, "Return a != b, element by element.", "ne", result="bool", scalars=False
    ),
    "logical_and": Meaning(2, "Return a and b.", "and", kinds=_BOOL, scalars=False),
    "logical_or": Meaning(2, "Return a or b.", "or", kinds=_BOOL, scalars=False),
    "logical_not": Meaning(1, "Return not a.", "not", kinds=_BOOL, scalars=False),
}


@dataclass(frozen=True, slots=True)
class Elementwise(Op):
    """An op that acts on each element alone; `name` is a key of ELEMENTWISE.

    Layout   all Replicated -> Replicated; one other layout beside Replicated -> it
    Shape    broadcast from the right; sliced operands whole in the sliced dim
    Dtype    one for all tensors; scalars take it; comparisons give bool
    Raises   ShapeError, DtypeError, LayoutError, GroupError
    Source   CoCoNet, ASPLOS'22 (pointwise computations)
    """

    name: str

    def infer(self, *inputs: TensorType, **_: Any) -> TensorType:
        """Return the result's type by the rules of ops/join.py."""
        meaning = ELEMENTWISE[self.name]
        tensors = tuple(t for t in inputs if not t.is_scalar)
        if not tensors:
            return self._infer_scalars(inputs)
        dtype = join_dtypes(self.name, tensors)
        self._check_dtype(dtype, inputs)
        shape = broadcast_shapes(self.name, tensors)
        layout = join_layouts(self.name, tensors, shape)
        result = bool_ if meaning.result == "bool" else dtype
        return TensorType(result, shape, layout, one_group(tensors))

    def _infer_scalars(self, inputs: tuple[TensorType, ...]) -> TensorType:
        meaning = ELEMENTWISE[self.name]
        if not meaning.scalars:
            raise DtypeError(
                f"{self.name} is not defined for scalars",
                got="scalars",
                need="a tensor",
                fix="pass the result as a scalar",
            )
        if self.name == "div" and all(t.dtype is i64 for t in inputs):
            raise DtypeError(
                "/ of two integer scalars",
                got="i64 / i64",
                need="an f64 operand",
                fix="write 2.0",
            )
        is_int = all(t.dtype is i64 for t in inputs) and "int" in meaning.kinds
        return scalar_type(i64 if is_int else f64)

    def _check_dtype(self, dtype: DType, inputs: tuple[TensorType, ...]) -> None:
        meaning = ELEMENTWISE[self.name]
        if dtype.kind not in meaning.kinds:
            raise DtypeError(
                f"{self.name} has no meaning for {dtype}",
                got=dtype,
                need=" or ".join(meaning.kinds),
                fix="cast(x, f32)",
            )
        check_scalars(self.name, dtype, inputs)

    def reference(self, *inputs: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the op on each rank's part, rounded once per primitive."""
        import numpy as np

        from coconet.plan.scalar import NUMBERS, to_scalar

        result = self.infer(*(x.type for x in inputs))
        tensors = [x for x in inputs if not x.type.is_scalar]
        if not tensors:
            numbers = [x.arrays[0] for x in inputs]
            value = NUMBERS[self.scalar_primitive](*numbers)
            return (to_scalar(value, is_int=result.dtype is i64),)
        dtype = tensors[-1].type.dtype
        with np.errstate(all="ignore"):
            return tuple(
                apply_arrays(self.name, parts, dtype)
                for parts in aligned_parts(inputs, result, dtype)
            )

    @property
    def scalar_primitive(self) -> str:
        """The name in NUMBERS of what evaluates scalars; infer refused the others."""
        return ELEMENTWISE[self.name].primitive or self.name

    def work(self, ranks: int, *inputs: TensorType) -> Work:
        """Count one operation per element, each operand read, the result written."""
        return pointwise_work(ranks, self.infer(*inputs), *inputs)

    def lower(self, tile: Emitter, *inputs: TensorType) -> Register:
        """Apply the primitives to each element; 16-bit floats are widened to f32."""
        dtype = next(t.dtype for t in reversed(inputs) if not t.is_scalar)
        wide = wide_dtype(dtype)
        operands = tuple(tile.operand(i, dtype) for i in range(len(inputs)))
        if wide is not dtype:
            operands = tuple(tile.apply("cast", x, dtype=wide) for x in operands)
        meaning = ELEMENTWISE[self.name]
        if meaning.expand is not None:
            result = meaning.expand(tile, wide, operands)
        else:
            result = tile.apply(meaning.primitive, *operands)
        if wide is dtype or meaning.result == "bool":
            return result
        return tile.apply("cast", result, dtype=dtype)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return infix for Python's operators, else a call."""
        meaning = ELEMENTWISE[self.name]
        symbol, level = meaning.symbol
        # the number -2 and the negation of 2 are two things
        is_of_number = len(inputs) == 1 and inputs[0][0].lstrip("-")[:1].isdigit()
        if not symbol or is_of_number:
            name, options = meaning.call or (self.name, "")
            return call_text(name, *(text for text, _ in inputs), options)
        if len(inputs) == 1:
            return symbol + _nested(inputs[0], level), level
        # + - * / associate to the left, ** to the right; comparisons do not chain
        left = level + (1 if symbol == "**" or level == 6 else 0)
        right = level + (0 if symbol == "**" else 1)
        first, second = _nested(inputs[0], left), _nested(inputs[1], right)
        return f"{first} {symbol} {second}", level


def _nested(operand: tuple[str, int], level: int) -> str:
    text, binds = operand
    return text if binds >= level else f"({text})"


def aligned_parts(
    inputs: tuple[Ranked, ...], result: TensorType, dtype: DType
) -> Iterator[list[Any]]:
    """Yield, rank by rank, the operands' parts that meet the result's part.

    Scalars are rounded to `dtype`.
    """
    from coconet.plan.scalar import to_dtype

    shape = concrete_shape(result)
    cut = result.layout.cut if isinstance(result.layout, Sliced) else None
    ranks = next(x.ranks for x in inputs if not x.type.is_scalar)
    for position in range(ranks):
        yield [
            to_dtype(x.arrays[0], dtype.numpy)
            if x.type.is_scalar
            else _aligned_part(x, shape, cut, position, ranks)
            for x in inputs
        ]


def _aligned_part(
    x: Ranked, shape: tuple[int, ...], cut: Cut | None, position: int, ranks: int
) -> Array:
    import numpy as np

    array = x.arrays[position]
    if cut is None or not isinstance(x.type.layout, Replicated):
        return array
    if isinstance(cut, int):
        dim = cut - (len(shape) - array.ndim)
        if dim < 0 or array.shape[dim] == 1 != shape[cut]:
            return array  # broadcast along the cut: every rank needs all of it
        return take_piece(array, dim, position, ranks)
    return take_piece(np.broadcast_to(array, shape), cut, position, ranks)


def wide_dtype(dtype: DType) -> DType:
    """Return the dtype in which arithmetic is done: f32 for 16-bit floats."""
    return f32 if dtype.is_float and dtype.itemsize == 2 else dtype


def apply_arrays(name: str, arrays: list[Any], dtype: DType) -> Any:
    """Apply an element-wise op to arrays of one dtype, rounding once at the end."""
    from coconet.plan.scalar import ArrayEmitter

    meaning = ELEMENTWISE[name]
    wide = wide_dtype(dtype)
    operands = tuple(array.astype(wide.numpy) for array in arrays)
    emitter: Any = ArrayEmitter()
    if meaning.expand is not None:
        result: Any = meaning.expand(emitter, wide, operands)
    else:
        result = emitter.apply(meaning.primitive, *operands)
    return result if meaning.result == "bool" else result.astype(dtype.numpy)


def elementwise_function(name: str) -> Callable[..., Any]:
    """Return the user's function for a row of the table."""

    def function(*operands: Any) -> Any:
        meaning = ELEMENTWISE[name]
        if len(operands) != meaning.arity:
            raise TypeError(f"{name} takes {meaning.arity} operands")
        return Elementwise(name).of(*operands)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{ELEMENTWISE[name].doc}  See docs/language.md for layouts."
    return function

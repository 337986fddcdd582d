"""Tensors as the user holds them: operators that build a program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from coconet.dsl.source import caller, reading
from coconet.errors import ProgramError
from coconet.ir import (
    Dim,
    DType,
    Group,
    Layout,
    Shape,
    TensorType,
    Value,
    f64,
    needed_by,
    scalar_type,
)
from coconet.ir.names import is_name
from coconet.ops import Elementwise, Input, Literal, Op

__all__ = ["Tensor", "scalar", "tensor"]

_draws: WeakKeyDictionary[Value, int] = WeakKeyDictionary()
"""How many random ops have a seed made of this input."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A value of a program under construction: a tensor, or a scalar.

    Arithmetic and comparisons build new tensors; nothing is computed.
    """

    value: Value

    # numpy must leave `array + tensor` to us, so that our error names the mistake
    __array_ufunc__ = None

    @property
    def type(self) -> TensorType:
        """Dtype, global shape, layout and group."""
        return self.value.type

    @property
    def name(self) -> str:
        """The name given so far, or ""."""
        return self.value.name

    def emit(self, op: Op, *others: Any) -> Tensor:
        """Apply an op to this and others; numbers become literals.

        Raises ProgramError, with the user's line, if the types do not fit.
        """
        inputs = (self.value, *(_value_of(other) for other in others))
        type_ = _infer(op, inputs)
        loc, name = caller()
        return Tensor(Value(op, inputs, type_, name, loc))

    def as_one(self, function: Callable[[Any], Any]) -> Tensor:
        """Return function(self), where only the result has the name of the user's line.

        For functions made of several ops.
        """
        line, name = caller()
        with reading(line) if line else nullcontext():
            result: Tensor = function(self)
        return Tensor(replace(result.value, name=name))

    def lift(self, operand: Any) -> Tensor:
        """Return a number as a literal, and a tensor as it is."""
        return Tensor(_value_of(operand))

    def draw(self, ordinal: int | None) -> int:
        """Return the ordinal of a random op whose seed this is, or the next one.

        They are counted for the first scalar input that the seed is made of.
        Raises TypeError if there is none.
        """
        root = next((v for v in needed_by([self.value]) if not v.inputs), self.value)
        if not isinstance(root.op, Input):
            raise TypeError("a seed is made of a scalar input, else it never changes")
        number = _draws.get(root, 0) if ordinal is None else ordinal
        _draws[root] = max(_draws.get(root, 0), number + 1)
        return number

    def _binary(self, name: str, other: Any) -> Tensor:
        return self.emit(Elementwise(name), other)

    def _reflected(self, name: str, other: Any) -> Tensor:
        return self.lift(other).emit(Elementwise(name), self)

    def __add__(self, other: Any) -> Tensor:
        """Return self + other."""
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Tensor:
        """Return other + self."""
        return self._reflected("add", other)

    def __sub__(self, other: Any) -> Tensor:
        """Return self - other."""
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Tensor:
        """Return other - self."""
        return self._reflected("sub", other)

    def __mul__(self, other: Any) -> Tensor:
        """Return self * other."""
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Tensor:
        """Return other * self."""
        return self._reflected("mul", other)

    def __truediv__(self, other: Any) -> Tensor:
        """Return self / other; integers are refused."""
        return self._binary("div", other)

    def __rtruediv__(self, other: Any) -> Tensor:
        """Return other / self; integers are refused."""
        return self._reflected("div", other)

    def __pow__(self, other: Any) -> Tensor:
        """Return self ** other."""
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Tensor:
        """Return other ** self."""
        return self._reflected("pow", other)

    def __neg__(self) -> Tensor:
        """Return -self."""
        return self.emit(Elementwise("neg"))

    def __abs__(self) -> Tensor:
        """Return the absolute value."""
        return self.emit(Elementwise("abs"))

    def __lt__(self, other: Any) -> Tensor:
        """Return self < other, element by element."""
        return self._binary("less", other)

    def __le__(self, other: Any) -> Tensor:
        """Return self <= other, element by element."""
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Tensor:
        """Return self > other, element by element."""
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Tensor:
        """Return self >= other, element by element."""
        return self._binary("greater_equal", other)

    def __bool__(self) -> bool:
        """Refuse: a tensor has no value while the program is written."""
        raise ProgramError(
            "a tensor has no truth value while a program is written",
            got="if, and, or, or a chained comparison",
            need="where(condition, a, b)",
            at=_here(),
        )

    def __repr__(self) -> str:
        """Return name and type."""
        return f"Tensor({self.value!r})"


def tensor(
    name: str, dtype: DType, shape: Shape | list[Any], layout: Layout, group: Group
) -> Tensor:
    """Declare a tensor that the caller passes.

    shape is global; layout says which part of it each rank of the group holds.
    Raises ValueError for a bad name or extent, TypeError for a class in place of a
    layout, ShapeError for a cut that the shape does not have.
    """
    _check_name(name)
    _check_kinds(name, (dtype, DType), (layout, Layout), (group, Group))
    extents = tuple(shape)
    for extent in extents:
        if not isinstance(extent, Dim) and (type(extent) is not int or extent < 0):
            raise ValueError(f"{name}: an extent is a count or a dim, got {extent!r}")
    type_ = TensorType(dtype, extents, layout, group)
    return _input(name, type_)


def scalar(name: str, dtype: DType = f64) -> Tensor:
    """Declare a scalar (f64 or i64) that the caller passes, anew at every call."""
    _check_name(name)
    return _input(name, scalar_type(dtype))


def _input(name: str, type_: TensorType) -> Tensor:
    op = Input(type_)
    return Tensor(Value(op, (), _infer(op, ()), name, caller()[0]))


def _check_name(name: str) -> None:
    if not is_name(name) or name.startswith("_"):
        raise ValueError(f"a name is an identifier without leading _, got {name!r}")


def _check_kinds(name: str, *parts: tuple[Any, Any]) -> None:
    for part, kind in parts:
        if not isinstance(part, kind):
            raise TypeError(f"{name}: {part!r} is not of type {kind}")


def _value_of(operand: Any) -> Value:
    if isinstance(operand, Tensor):
        return operand.value
    if isinstance(operand, float | int) and not isinstance(operand, bool):
        # subclasses, as numpy's float64, print otherwise
        op = Literal(float(operand) if isinstance(operand, float) else int(operand))
        return Value(op, (), _infer(op, ()))
    raise ProgramError(
        "an operand is a coconet tensor or a number",
        got=type(operand).__name__,
        need="tensor, scalar, float or int",
        fix="declare it by cc.tensor(..); write equal(a, b) for a == b",
        at=_here(),
    )


def _infer(op: Op, inputs: tuple[Value, ...]) -> TensorType:
    """Return the type of an op's result; errors name the user's line."""
    try:
        return op.infer(*(value.type for value in inputs))
    except ProgramError as error:
        error.at = _here()
        raise


def _here() -> str:
    return str(caller()[0] or "")

"""Expressions of expansions: operators that apply primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coconet.ir import DType, bool_, f32, f64, i32, i64

__all__ = ["Arithmetic", "Term", "copysign", "polynomial", "select"]


class Arithmetic(Protocol):
    """What carries out primitives: a tile's emitter, numpy or torch."""

    def apply(self, primitive: str, *args: Any, dtype: DType | None = None) -> Any:
        """Apply a primitive; `dtype` is the result's, if not the last argument's."""
        ...

    def literal(self, value: float | int, dtype: DType) -> Any:
        """Return a literal of this dtype."""
        ...


_SAME_WIDTH = {f32: i32, f64: i64, i32: f32, i64: f64}


@dataclass(frozen=True, slots=True)
class Term:
    """A value of an expansion: an operand, and what computes on it.

    Numbers beside a term are literals of its dtype.
    """

    arithmetic: Arithmetic
    operand: Any
    dtype: DType

    def literal(self, value: float | int) -> Term:
        """Return a literal of this term's dtype."""
        return self._as(self.arithmetic.literal(value, self.dtype), self.dtype)

    def to(self, dtype: DType) -> Term:
        """Return the number rounded to a float dtype."""
        if dtype is self.dtype:
            return self
        return self._as(self.arithmetic.apply("cast", self.operand, dtype=dtype), dtype)

    def bits(self) -> Term:
        """Return a float's bits as a signed integer of the same width."""
        return self._reinterpreted("bits")

    def from_bits(self) -> Term:
        """Return the float that has these bits."""
        return self._reinterpreted("from_bits")

    def _reinterpreted(self, primitive: str) -> Term:
        dtype = _SAME_WIDTH[self.dtype]
        return self._as(
            self.arithmetic.apply(primitive, self.operand, dtype=dtype), dtype
        )

    def _as(self, operand: Any, dtype: DType) -> Term:
        return Term(self.arithmetic, operand, dtype)

    def _lifted(self, other: Term | float) -> Any:
        return other.operand if isinstance(other, Term) else self.literal(other).operand

    def _apply(self, primitive: str, *others: Term | float) -> Term:
        args = (self.operand, *map(self._lifted, others))
        return self._as(self.arithmetic.apply(primitive, *args), self.dtype)

    def _compare(self, primitive: str, other: Term | float) -> Term:
        result = self.arithmetic.apply(primitive, self.operand, self._lifted(other))
        return self._as(result, bool_)

    def __add__(self, other: Term | float) -> Term:
        """Return self + other."""
        return self._apply("add", other)

    def __radd__(self, other: float) -> Term:
        """Return other + self."""
        return self.literal(other) + self

    def __sub__(self, other: Term | float) -> Term:
        """Return self - other."""
        return self._apply("sub", other)

    def __rsub__(self, other: float) -> Term:
        """Return other - self."""
        return self.literal(other) - self

    def __mul__(self, other: Term | float) -> Term:
        """Return self * other."""
        return self._apply("mul", other)

    def __rmul__(self, other: float) -> Term:
        """Return other * self."""
        return self.literal(other) * self

    def __truediv__(self, other: Term | float) -> Term:
        """Return self / other."""
        return self._apply("div", other)

    def __rtruediv__(self, other: float) -> Term:
        """Return other / self."""
        return self.literal(other) / self

    def __neg__(self) -> Term:
        """Return -self."""
        return self._apply("neg")

    def __abs__(self) -> Term:
        """Return the absolute value."""
        return self._apply("abs")

    def __lt__(self, other: Term | float) -> Term:
        """Return self < other."""
        return self._compare("lt", other)

    def __le__(self, other: Term | float) -> Term:
        """Return self <= other."""
        return self._compare("le", other)

    def __gt__(self, other: float) -> Term:
        """Return self > other."""
        return self.literal(other) < self

    def __ge__(self, other: float) -> Term:
        """Return self >= other."""
        return self.literal(other) <= self

    def equals(self, other: Term | float) -> Term:
        """Return self == other."""
        return self._compare("eq", other)

    def differs(self, other: Term | float) -> Term:
        """Return self != other."""
        return self._compare("ne", other)

    def __and__(self, other: Term | int) -> Term:
        """Return both, of truths or of bits."""
        return self._apply("and" if self.dtype is bool_ else "bit_and", other)

    def __or__(self, other: Term | int) -> Term:
        """Return either, of truths or of bits."""
        return self._apply("or" if self.dtype is bool_ else "bit_or", other)

    def __xor__(self, other: Term | int) -> Term:
        """Return the bits that differ."""
        return self._apply("bit_xor", other)

    def __invert__(self) -> Term:
        """Return the opposite truth."""
        return self._apply("not")

    def __lshift__(self, count: int) -> Term:
        """Return the bits moved up; those that leave are lost."""
        return self._apply("shl", count)

    def __rshift__(self, count: int) -> Term:
        """Return the bits moved down; the sign fills up."""
        return self._apply("shr", count)


def select(condition: Term, yes: Term | float, no: Term | float) -> Term:
    """Return yes where the condition holds, else no; one of them is a Term."""
    like = yes if isinstance(yes, Term) else no
    assert isinstance(like, Term)
    first, second = (x if isinstance(x, Term) else like.literal(x) for x in (yes, no))
    arithmetic = condition.arithmetic
    args = condition.operand, first.operand, second.operand
    return Term(arithmetic, arithmetic.apply("select", *args), like.dtype)


def copysign(magnitude: Term, sign: Term) -> Term:
    """Return a number that is not negative with another's sign bit."""
    bit = -(1 << (8 * sign.dtype.itemsize - 1))
    return (magnitude.bits() | (sign.bits() & bit)).from_bits()


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Return c0 + x * (c1 + x * (c2 + ..))."""
    *rest, last = coefficients
    total = x.literal(last)
    for coefficient in reversed(rest):
        total = total * x + coefficient
    return total

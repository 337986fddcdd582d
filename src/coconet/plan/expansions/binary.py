"""Binary floats taken apart: exponents, powers of two, nearest integers."""

from __future__ import annotations

from dataclasses import dataclass

from coconet.ir import DType, f32, f64
from coconet.plan.expansions.term import Term, select

__all__ = ["is_integer", "nearest", "power_of_two", "scale", "split"]


@dataclass(frozen=True, slots=True)
class _Format:
    """The layout of a float dtype.

    stored  bits of the significand that are stored
    bias    what is added to an exponent
    magic   adding it to a number below 2 ** (stored - 1) rounds that to an integer
    """

    stored: int
    bias: int

    @property
    def magic(self) -> float:
        """1.5 * 2 ** stored."""
        return 1.5 * 2.0**self.stored

    @property
    def magic_bits(self) -> int:
        """The bits of `magic`; adding an integer to them adds it to the number."""
        return ((self.bias + self.stored) << self.stored) | (1 << (self.stored - 1))

    @property
    def least_normal(self) -> float:
        """The least number with a whole significand."""
        return 2.0 ** (1 - self.bias)


_FORMATS: dict[DType, _Format] = {f32: _Format(23, 127), f64: _Format(52, 1023)}

_ROOT_HALF_BITS = {f32: 0x3F3504F3, f64: 0x3FE6A09E667F3BCD}


def nearest(x: Term) -> tuple[Term, Term]:
    """Return the nearest integer as a float and as bits; ties to even.

    Exact while |x| < 2 ** (stored - 1); of a NaN the bits mean nothing.
    """
    format_ = _FORMATS[x.dtype]
    shifted = x + format_.magic
    return shifted - format_.magic, shifted.bits() - format_.magic_bits


def is_integer(x: Term) -> Term:
    """Return whether a number that is not negative is an integer, or infinite."""
    limit = 2.0 ** _FORMATS[x.dtype].stored
    return (x >= limit) | ((x + limit) - limit).equals(x)


def power_of_two(exponent: Term, dtype: DType) -> Term:
    """Return 2 ** exponent, given as bits, in the range of normal numbers."""
    format_ = _FORMATS[dtype]
    return ((exponent + format_.bias) << format_.stored).from_bits()


def scale(x: Term, exponent: Term, precision: DType | None = None) -> Term:
    """Return x * 2 ** exponent, of any size.

    precision  of the result, where it is not x's dtype: f64 holds what f32 cannot
    """
    if precision is f32 and x.dtype is f64:
        return x * power_of_two(exponent, x.dtype)
    # 2 ** exponent may be no number, or the product a subnormal one, rounded once
    half = exponent >> 1
    first = power_of_two(half, x.dtype)
    return (x * first) * power_of_two(exponent - half, x.dtype)


def split(x: Term) -> tuple[Term, Term]:
    """Return m and e with x = m * 2 ** e and m from sqrt(1/2) to sqrt(2).

    x is positive and finite; of others the results mean nothing.
    """
    format_, root = _FORMATS[x.dtype], _ROOT_HALF_BITS[x.dtype]
    up = format_.stored + 1
    is_small = x < format_.least_normal
    bits = select(is_small, x * 2.0**up, x).bits()
    above = bits + ((format_.bias << format_.stored) - root)
    exponent = (above >> format_.stored) - format_.bias
    significand = (above & ((1 << format_.stored) - 1)) + root
    real = (exponent + format_.magic_bits).from_bits() - format_.magic
    return significand.from_bits(), select(is_small, real - float(up), real)

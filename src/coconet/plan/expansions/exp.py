"""The exponential function."""

from __future__ import annotations

from dataclasses import dataclass

from coconet.ir import DType, f32, f64
from coconet.plan.expansions.binary import nearest, scale
from coconet.plan.expansions.term import Term, polynomial, select

__all__ = ["EXP", "LN2", "Exponential", "clamped", "exp", "exp_parts"]

LN2 = {
    f32: (0.693145751953125, 1.4286068203094173e-06),
    f64: (0.6931471805598903, 5.497923018708371e-14),
}
"""log(2) in two parts; the first times any exponent is exact."""

EXP = {
    f32: (
        *(0.50000000135477827, 0.1666666675694132, 0.041666464137220537),
        *(0.0083332858365600525, 0.0013933735716771243, 0.00019907704448986997),
    ),
    f64: (
        *(0.5, 0.16666666666666671, 0.041666666666666684, 0.008333333333326082),
        *(0.0013888888888874294, 0.00019841269875005669, 2.4801587347587178e-5),
        *(2.7557255166245235e-6, 2.7557252673292368e-7, 2.5105314116534943e-8),
        2.0921670179120711e-9,
    ),
}
"""(exp(r) - 1 - r) / r ** 2 for |r| <= log(2) / 2, to this dtype's precision."""

_LIMITS = {f32: (-104.0, 89.0), f64: (-746.0, 710.0)}


def exp(x: Term) -> Term:
    """Return e ** x."""
    power = exp_parts(clamped(x, *_LIMITS[x.dtype]))
    return scale(power.significand, power.exponent)


@dataclass(frozen=True, slots=True)
class Exponential:
    """(1 + head + tail) * 2 ** exponent, |head| < 1, the exponent an integer."""

    head: Term
    tail: Term
    exponent: Term

    @property
    def less_one(self) -> Term:
        """The significand without its 1, accurate near 0."""
        return self.head + self.tail

    @property
    def significand(self) -> Term:
        """1 + head + tail, rounded about once."""
        whole = self.head + 1.0
        return whole + ((self.head - (whole - 1.0)) + self.tail)


def exp_parts(
    x: Term, low: Term | None = None, precision: DType | None = None
) -> Exponential:
    """Return e ** (x + low); from where 2 ** exponent is no number it means nothing.

    precision  of the result, where it is not x's dtype
    """
    high, small = LN2[x.dtype]
    whole = x if low is None else x + low
    turns, exponent = nearest(whole * 1.4426950408889634)
    head = x - turns * high
    tail = -(turns * small) if low is None else low - turns * small
    r = head + tail
    curve = (r * r) * polynomial(r, EXP[precision or x.dtype])
    return Exponential(head, tail + curve, exponent)


def clamped(x: Term, low: float, high: float) -> Term:
    """Return the nearest number from low to high; NaN stays."""
    above = select(x < low, low, x)
    return select(above > high, high, above)

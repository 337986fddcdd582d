"""The natural logarithm."""

from __future__ import annotations

import math

from coconet.ir import DType, f32, f64
from coconet.plan.expansions.binary import split
from coconet.plan.expansions.exp import LN2
from coconet.plan.expansions.term import Term, polynomial, select

__all__ = ["log", "log_at_borders"]

_ATANH = {
    f32: (
        *(0.66666666553024848, 0.40000122752452995),
        *(0.28550737156822587, 0.23332382847386024),
    ),
    f64: (
        *(0.66666666666666697, 0.39999999999898447, 0.28571428626398656),
        *(0.22222211072894534, 0.18182893216800716, 0.1533159698024087),
        0.14617872803129472,
    ),
}
"""(2 atanh(s) / s - 2) / z of z = s ** 2 for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)."""


def log(x: Term, precision: DType | None = None) -> Term:
    """Return the natural logarithm; of 0 it is -inf, of negative numbers NaN.

    precision  of the result, where it is not x's dtype
    """
    m, exponent = split(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    half = (f * 0.5) * f
    high, low = LN2[x.dtype]
    series = z * polynomial(z, _ATANH[precision or x.dtype])
    inner = s * (half + series) + exponent * low
    return log_at_borders(x, exponent * high - ((half - inner) - f))


def log_at_borders(x: Term, inside: Term) -> Term:
    """Return the logarithm where x is not positive and finite, else `inside`."""
    outside = select(x.equals(0.0), x.literal(-math.inf), math.nan)
    return select(x > 0.0, select(x < math.inf, inside, x), outside)

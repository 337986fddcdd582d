"""Powers of tensors, with C99's special cases."""

from __future__ import annotations

import math

from coconet.ir import f32, f64
from coconet.plan.expansions.binary import is_integer, scale, split
from coconet.plan.expansions.exp import LN2, clamped, exp_parts
from coconet.plan.expansions.log import log, log_at_borders
from coconet.plan.expansions.pairs import Pair, exact_product, exact_sum
from coconet.plan.expansions.term import Term, copysign, polynomial, select

__all__ = ["power"]

_ATANH = (
    *(0.4, 0.28571428571429375, 0.22222222221651329, 0.18181818336322409),
    *(0.15384594872224234, 0.1333480919529892, 0.1170612507385906),
    0.11724258976462521,
)
"""((2 atanh(s) / s - 2) / z - 2 / 3) / z of z = s ** 2, as in log."""


def power(x: Term, y: Term) -> Term:
    """Return x ** y; f32 is computed in f64."""
    wide_x, wide_y = x.to(f64), y.to(f64)
    a = abs(wide_x)
    size = _coarse(a, wide_y) if x.dtype is f32 else _fine(a, wide_y)
    size = select(a.equals(1.0), 1.0, size)
    return _with_sign(wide_x, wide_y, size).to(x.dtype)


def _with_sign(x: Term, y: Term, size: Term) -> Term:
    """Return x ** y given |x| ** y."""
    steps = abs(y)
    is_whole = is_integer(steps)
    is_odd = is_whole & ~is_integer(steps * 0.5)
    result = select(is_odd, copysign(size, x), size)
    is_real = is_whole | (x >= 0.0) | x.equals(-math.inf)
    result = select(is_real | x.differs(x), result, math.nan)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, result)


def _coarse(a: Term, y: Term) -> Term:
    """Return a ** y in f64, to about 30 bits, from 2 ** -160 to 2 ** 160."""
    product = clamped(y * log(a, precision=f32), -110.0, 110.0)
    result = exp_parts(product, precision=f32)
    return scale(result.significand, result.exponent, f32)


def _fine(a: Term, y: Term) -> Term:
    """Return a ** y in f64."""
    logarithm = _log_pair(a)
    high = log_at_borders(a, logarithm.high)
    product = exact_product(high, y)
    low = product.low + logarithm.low * y
    bounded = clamped(product.high, -800.0, 800.0)
    low = select(bounded.equals(product.high), low, 0.0)
    result = exp_parts(bounded, low)
    return scale(result.significand, result.exponent)


def _log_pair(x: Term) -> Pair:
    """Return the natural logarithm of a positive finite number, to about 65 bits."""
    m, exponent = split(x)
    s = _quotient(m - 1.0)
    z = s * s
    two_thirds = Pair(x.literal(0.6666666666666666), x.literal(3.700743415417188e-17))
    series = Pair(z.high * polynomial(z.high, _ATANH), x.literal(0.0))
    two = Pair(x.literal(2.0), x.literal(0.0))
    high, low = LN2[f64]
    whole = Pair(exponent * high, exponent * low)
    return whole + s * (two + z * (two_thirds + series))


def _quotient(f: Term) -> Pair:
    """Return f / (2 + f)."""
    below = exact_sum(f.literal(2.0), f)
    quotient = f / below.high
    back = exact_product(quotient, below.high)
    rest = ((f - back.high) - back.low) - quotient * below.low
    return Pair(quotient, rest / below.high)

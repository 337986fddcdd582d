"""The logistic function, and what is gated by it."""

from __future__ import annotations

from coconet.ir import DType, f32, f64
from coconet.plan.expansions.binary import scale
from coconet.plan.expansions.exp import clamped, exp_parts
from coconet.plan.expansions.term import Term, select

__all__ = ["gated", "logistic_tail", "sigmoid", "silu"]

_LIMIT = {f32: 110.0, f64: 760.0}
"""From here on |x| / (1 + e ** |x|) is 0."""


def sigmoid(x: Term) -> Term:
    """Return 1 / (1 + e ** -x), accurate at both ends."""
    limit = _LIMIT[x.dtype]
    tail = logistic_tail(x.literal(1.0), -abs(clamped(x, -limit, limit)))
    return select(x < 0.0, tail, 1.0 - tail)


def silu(x: Term) -> Term:
    """Return x * sigmoid(x); at -inf it is -0, its limit."""
    limit = _LIMIT[x.dtype]
    bounded = clamped(x, -limit, limit)
    return gated(x, logistic_tail(bounded, -abs(bounded)))


def logistic_tail(
    factor: Term, x: Term, low: Term | None = None, precision: DType | None = None
) -> Term:
    """Return factor / (1 + e ** -(x + low)) for x <= 0; only the result underflows.

    precision  of the result, where it is not x's dtype
    """
    power = exp_parts(x, low, precision)
    below = scale(power.significand, power.exponent, precision) + 1.0
    above = factor + factor * power.less_one
    return scale(above / below, power.exponent, precision)


def gated(x: Term, tail: Term) -> Term:
    """Return x * F(x) where F(x) + F(-x) = 1 and tail = x * F(-|x|)."""
    return select(x <= 0.0, tail, x - tail)

"""The hyperbolic tangent."""

from __future__ import annotations

from coconet.ir import f32, f64
from coconet.plan.expansions.binary import power_of_two
from coconet.plan.expansions.exp import clamped, exp_parts
from coconet.plan.expansions.term import Term, copysign, select

__all__ = ["tanh"]

_LIMIT = {f32: 20.0, f64: 40.0}
"""From here on e ** x + 1 and e ** x - 1 have the same quotient: 1."""


def tanh(x: Term) -> Term:
    """Return the hyperbolic tangent: h / (1 + h) with h = (e ** |2x| - 1) / 2."""
    power = exp_parts(clamped(abs(x) * 2.0, 0.0, _LIMIT[x.dtype]))
    half = power_of_two(power.exponent - 1, x.dtype)
    h = half * power.less_one + (half - 0.5)
    quotient = h / (h + 1.0)
    # the same, with the quotient's error made smaller
    return copysign(select(h < 0.5, h - h * quotient, quotient), x)

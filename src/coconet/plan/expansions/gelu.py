"""Gaussian error linear units: x times the normal distribution, and PyTorch's fit."""

from __future__ import annotations

from coconet.ir import DType, f32, f64
from coconet.plan.expansions.exp import clamped
from coconet.plan.expansions.normal import TAIL_LIMIT, normal_tail
from coconet.plan.expansions.pairs import Pair, exact_product
from coconet.plan.expansions.sigmoid import gated, logistic_tail
from coconet.plan.expansions.term import Term

__all__ = ["gelu", "gelu_tanh"]

_LIMIT = {f32: 11.0, f64: 21.75}
"""From here on |x| / (1 + e ** 2u) is 0."""

_LINEAR = (1.5957691216057308, -9.96930880911092e-17)
_CUBIC = (0.07135481627260025, -6.175149918155315e-19)
"""sqrt(8 / pi), and 0.044715 times it, each as the sum of two f64."""


def gelu(x: Term) -> Term:
    """Return x * (1 + erf(x / sqrt(2))) / 2; at -inf it is -0, its limit."""
    wide, limit = x.to(f64), TAIL_LIMIT[x.dtype]
    bounded = clamped(wide, -limit, limit)
    tail = normal_tail(bounded, abs(bounded), x.dtype)
    return gated(wide, tail).to(x.dtype)


def gelu_tanh(x: Term) -> Term:
    """Return x * (1 + tanh(u)) / 2, u = sqrt(2 / pi) * (x + 0.044715 * x ** 3).

    That is x * sigmoid(2u); at -inf it is -0, its limit.
    """
    wide, limit = x.to(f64), _LIMIT[x.dtype]
    bounded = clamped(wide, -limit, limit)
    high, low = _twice_u(-abs(bounded), x.dtype)
    return gated(wide, logistic_tail(bounded, high, low, x.dtype)).to(x.dtype)


def _twice_u(x: Term, precision: DType) -> tuple[Term, Term | None]:
    """Return 2u, with what it lacks of f64: e ** 2u multiplies errors by its size."""
    if precision is f32:
        return x * (_LINEAR[0] + _CUBIC[0] * (x * x)), None
    linear, cubic = (Pair(*map(x.literal, pair)) for pair in (_LINEAR, _CUBIC))
    total = (linear + cubic * exact_product(x, x)) * Pair(x, x.literal(0.0))
    return total.high, total.low

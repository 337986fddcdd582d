"""The upper tail of the normal distribution, of which erf and gelu are made."""

from __future__ import annotations

from coconet.ir import DType, f32, f64
from coconet.plan.expansions.binary import scale
from coconet.plan.expansions.exp import exp_parts
from coconet.plan.expansions.term import Term, polynomial

__all__ = ["TAIL_LIMIT", "normal_tail"]

TAIL_LIMIT = {f32: 14.5, f64: 38.75}
"""From here on x times the tail is 0, in this dtype."""

_CENTRE = {f32: 4.0, f64: 5.0}
_TAIL = {
    f32: (
        *(0.75528513116099025, -0.60789664978022548, 0.38713731858649883),
        *(-0.18652155443710921, 0.060398148200712307, -0.007542906036609821),
        *(-0.0034912971865280763, 0.0016370888793095461, 0.00017094123717288715),
        *(-0.00022205843351296839, -4.6319470753944722e-5),
    ),
    f64: (
        *(0.76919304975006296, -0.66538250289005678, 0.49530561596997727),
        *(-0.31353315667129627, 0.16502036617033929, -0.069118638706567096),
        *(0.020795066800797929, -0.0029933767667573389, -0.00079786940758532473),
        *(0.00054489903391664327, -5.9375677363057323e-5, -4.9762658184106009e-5),
        *(1.6681050515553177e-5, 3.9803975022792137e-6, -2.7689724699483563e-6),
        *(-3.3556863008626591e-7, 4.3290765012474718e-7, 4.0927431701267602e-8),
        *(-6.6021742841999333e-8, -8.3336854381141654e-9, 7.9367264840526452e-9),
        *(1.4456515260787455e-9, -2.9758341409036717e-10),
    ),
}
"""Q(x) * e ** (x ** 2 / 2) * (x + c) of (x - c) / (x + c), up to the limit,
to this dtype's precision."""

_HEAD = -(1 << 27)
"""Mask of the leading half of a significand, whose square is exact."""


def normal_tail(factor: Term, x: Term, precision: DType) -> Term:
    """Return factor * Q(x) in f64, for 0 <= x <= TAIL_LIMIT; only that underflows.

    Q(x) is the probability of more than x, which is erfc(x / sqrt(2)) / 2.
    """
    power = exp_parts(*_half_square(x, precision), precision)
    centre = _CENTRE[precision]
    reciprocal = 1.0 / (x + centre)
    shape = polynomial((x - centre) * reciprocal, _TAIL[precision]) * reciprocal
    above = factor + factor * power.less_one
    return scale(above * shape, power.exponent, precision)


def _half_square(x: Term, precision: DType) -> tuple[Term, Term | None]:
    """Return -x ** 2 / 2, with what it lacks: e ** y multiplies errors by y."""
    if precision is f32:
        return x * x * -0.5, None
    head = (x.bits() & _HEAD).from_bits()
    return head * head * -0.5, (x - head) * (x + head) * -0.5

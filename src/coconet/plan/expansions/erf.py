"""The error function."""

from __future__ import annotations

from coconet.ir import f32, f64
from coconet.plan.expansions.exp import clamped
from coconet.plan.expansions.normal import TAIL_LIMIT, normal_tail
from coconet.plan.expansions.term import Term, copysign, polynomial, select

__all__ = ["erf"]

_NEAR = {
    f32: (
        *(0.12837916591465432, -0.37612627140440546, 0.11283600211815889),
        *(-0.026854445581508076, 0.0051895364619392614, -0.00080208456984069044),
        7.8891191574878388e-5,
    ),
    f64: (
        *(0.12837916709551257, -0.37612638903183748, 0.11283791670954884),
        *(-0.026866170645077875, 0.0052239776248284307, -0.00085483269814255421),
        *(0.0001205533113295582, -1.4925595772180905e-5, 1.6461008477802701e-6),
        *(-1.6350396222864616e-7, 1.466032872274226e-8, -1.137495573607015e-9),
        5.960685338520971e-11,
    ),
}
"""erf(x) / x - 1 of x ** 2 for |x| <= 1, to this dtype's precision."""


def erf(x: Term) -> Term:
    """Return the error function; f32 is computed in f64."""
    wide, precision = x.to(f64), x.dtype
    a = abs(wide)
    near = a + a * polynomial(a * a, _NEAR[precision])
    bounded = clamped(a * 1.4142135623730951, 0.0, TAIL_LIMIT[precision])
    far = 1.0 - normal_tail(a.literal(2.0), bounded, precision)
    return copysign(select(a < 1.0, near, far), wide).to(precision)

"""Sine and cosine."""

from __future__ import annotations

import math

from coconet.ir import f32, f64
from coconet.plan.expansions.pairs import Pair
from coconet.plan.expansions.term import Term, polynomial, select
from coconet.plan.expansions.turns import quarter_turns, radians

__all__ = ["cos", "sin"]

_SIN_TURNS = (
    *(1.5707963267880998, -0.64596409614634775, 0.079692582707998108),
    *(-0.0046812660883588063, 0.00015820585584349186),
)
"""sin(f * pi / 2) / f of f ** 2 for |f| <= 1/2, for f32."""

_COS_TURNS = (
    *(-1.2337005501352786, 0.25366950772275556, -0.02086347505591589),
    *(0.00091919630809732185, -2.4909161707736597e-5),
)
"""(cos(f * pi / 2) - 1) / f ** 2, likewise."""

_SIN = (
    *(-0.16666666666666667, 0.0083333333333333315, -0.00019841269841265065),
    *(2.7557319219338907e-6, -2.5052106232301884e-8, 1.6058531588701035e-10),
    -7.5866949791971553e-13,
)
"""(sin(r) / r - 1) / r ** 2 of r ** 2 for |r| <= pi / 4."""

_COS = (
    *(0.041666666666666667, -0.0013888888888888888, 2.4801587301584646e-5),
    *(-2.7557319221402591e-7, 2.0876755790971635e-9, -1.147046086676846e-11),
    4.7458704967493203e-14,
)
"""(cos(r) - 1 + r ** 2 / 2) / r ** 4, likewise."""

_F64_LIMIT = 2.0**51


def sin(x: Term) -> Term:
    """Return the sine of an angle in radians; of an infinite one NaN."""
    result = _rotated(x, 0)
    sign = x.to(f64).bits() & -(1 << 63)
    return (result.bits() ^ sign).from_bits().to(x.dtype)


def cos(x: Term) -> Term:
    """Return the cosine of an angle in radians; of an infinite one NaN."""
    return _rotated(x, 1).to(x.dtype)


def _rotated(x: Term, quarters: int) -> Term:
    """Return sin(|x| + quarters * pi / 2) in f64."""
    a = abs(x).to(f64)
    if x.dtype is f32:
        fraction, count = quarter_turns(a)
        sine, cosine = _of_turns(fraction)
    else:
        rest, count = radians(a)
        sine, cosine = _of_radians(rest)
        sine, cosine = (select(a < _F64_LIMIT, y, math.nan) for y in (sine, cosine))
    count = count + quarters
    size = select((count & 1).equals(0), sine, cosine)
    return (size.bits() ^ ((count & 2) << 62)).from_bits()


def _of_turns(f: Term) -> tuple[Term, Term]:
    z = f * f
    return f * polynomial(z, _SIN_TURNS), 1.0 + z * polynomial(z, _COS_TURNS)


def _of_radians(r: Pair) -> tuple[Term, Term]:
    x, low = r.high, r.low
    z = x * x
    half = z * 0.5
    sine = x + ((low - half * low) + (x * z) * polynomial(z, _SIN))
    whole = 1.0 - half
    rest = ((1.0 - whole) - half) + ((z * z) * polynomial(z, _COS) - x * low)
    return sine, whole + rest

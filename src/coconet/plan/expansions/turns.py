"""Angles in quarter turns, for sin and cos."""

from __future__ import annotations

from coconet.plan.expansions.binary import nearest
from coconet.plan.expansions.pairs import Pair, exact_sum
from coconet.plan.expansions.term import Term, select

__all__ = ["quarter_turns", "radians"]

_TWO_OVER_PI = (
    *(170891318, 240010261, 44024437, 131200308, 232525238, 43358524, 70845471),
)
"""2 / pi, in parts of 28 bits, the first just below 1."""

_PARTS = tuple(part * 2.0 ** (-28 * (n + 1)) for n, part in enumerate(_TWO_OVER_PI))

_HALF_PI = (
    *(1.570796012878418, 3.139164164167596e-07, 6.223371969669989e-14),
    *(2.0222659584103533e-21, 2.90385597397936e-28),
)
"""pi / 2, in parts of 22 bits, the last of 53."""


def quarter_turns(a: Term) -> tuple[Term, Term]:
    """Return f and n, |f| <= 1/2, with a = (n + f) * pi / 2, n modulo 4.

    a is an f32 in f64, not negative, of any size (Payne and Hanek): its products with
    28 bits are exact, and of each only what is left modulo 4 turns counts.
    """
    near, far = _PARTS[:5], _PARTS[2:]
    is_far = a >= 2.0**82
    total = rest = a.literal(0.0)
    for first, second in zip(near, far, strict=True):
        product = a * select(is_far, a.literal(second), first)
        # above 2 ** 54 a product is a multiple of 4 already
        turns = product - ((product + 2.0**54) - 2.0**54)
        step = exact_sum(total, turns)
        total, rest = step.high, rest + step.low
    whole, count = nearest(total)
    return (total - whole) + rest, count


def radians(a: Term) -> tuple[Pair, Term]:
    """Return r and n with a = n * pi / 2 + r, for f64, not negative.

    r has 53 right bits while a <= 2 ** 30; from there on it is off by at most the
    distance to the next f64, until n is lost at 2 ** 51.
    """
    turns, count = nearest(a * 0.6366197723675814)
    first, second, third, fourth, last = (turns * part for part in _HALF_PI)
    r = exact_sum((a - first) - second, -third)
    return exact_sum(r.high, (r.low - fourth) - last), count

"""Unevaluated sums of two floats, for what one cannot hold."""

from __future__ import annotations

from dataclasses import dataclass

from coconet.plan.expansions.term import Term

__all__ = ["Pair", "exact_product", "exact_sum"]

_HEAD = -(1 << 27)
"""Mask of the leading half of an f64's significand."""


@dataclass(frozen=True, slots=True)
class Pair:
    """high + low, where low is at most half a unit in the last place of high."""

    high: Term
    low: Term

    def __add__(self, other: Pair) -> Pair:
        """Return self + other, to about 100 bits if they do not cancel."""
        total = exact_sum(self.high, other.high)
        return _ordered_sum(total.high, total.low + (self.low + other.low))

    def __mul__(self, other: Pair) -> Pair:
        """Return self * other, to about 100 bits."""
        product = exact_product(self.high, other.high)
        crossed = self.high * other.low + self.low * other.high
        return _ordered_sum(product.high, product.low + crossed)


def exact_sum(a: Term, b: Term) -> Pair:
    """Return a + b without error."""
    total = a + b
    second = total - a
    return Pair(total, (a - (total - second)) + (b - second))


def _ordered_sum(a: Term, b: Term) -> Pair:
    """Return a + b without error, |a| >= |b|."""
    total = a + b
    return Pair(total, b - (total - a))


def exact_product(a: Term, b: Term) -> Pair:
    """Return a * b of f64, to 106 bits."""
    product = a * b
    a_head, b_head = _head(a), _head(b)
    a_tail, b_tail = a - a_head, b - b_head
    crossed = (a_head * b_head - product) + a_head * b_tail + a_tail * b_head
    return Pair(product, crossed + a_tail * b_tail)


def _head(x: Term) -> Term:
    return (x.bits() & _HEAD).from_bits()

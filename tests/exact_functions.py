"""The functions of plan/expansions in decimal arithmetic, right to 50 digits."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext

DIGITS = 400
"""1 - erf(28) begins after 340 zeros."""

CONTEXT = Context(prec=DIGITS, Emin=-(10**9), Emax=10**9)


def exactly(name: str, *operands: float) -> Decimal:
    """Return a function of finite numbers."""
    with localcontext(CONTEXT):
        return FUNCTIONS[name](*map(Decimal, operands))


def summed(term: Decimal, following: Callable[[Decimal, int], Decimal]) -> Decimal:
    """Add a term and those that follow it, until they do not matter."""
    total, number = term, 0
    while abs(term) > Decimal(10) ** (total.adjusted() - DIGITS):
        number += 1
        term = following(term, number)
        total += term
    return total


def arctan_of_inverse(n: int) -> Decimal:
    power, total, k = Decimal(1) / n, Decimal(0), 0
    while power > Decimal(10) ** -(DIGITS + 5):
        total += (-power if k % 2 else power) / (2 * k + 1)
        power, k = power / (n * n), k + 1
    return total


with localcontext(CONTEXT):
    PI = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)


def sin(x: Decimal) -> Decimal:
    x = x - 2 * PI * (x / (2 * PI)).to_integral_value()
    if not x:
        return x
    return summed(x, lambda term, n: -term * x * x / (2 * n * (2 * n + 1)))


def cos(x: Decimal) -> Decimal:
    return sin(x + PI / 2)


def sigmoid(x: Decimal) -> Decimal:
    return 1 / (1 + (-x).exp())


def tanh(x: Decimal) -> Decimal:
    return ((2 * x).exp() - 1) / ((2 * x).exp() + 1)


def erf(x: Decimal) -> Decimal:
    if not x:
        return x
    series = summed(x, lambda term, n: term * 2 * x * x / (2 * n + 1))
    return 2 / PI.sqrt() * (-x * x).exp() * series


def gelu(x: Decimal) -> Decimal:
    return x * (1 + erf(x / Decimal(2).sqrt())) / 2


def gelu_tanh(x: Decimal) -> Decimal:
    u = (2 / PI).sqrt() * (x + Decimal("0.044715") * x**3)
    return x * sigmoid(2 * u)


FUNCTIONS: dict[str, Callable[..., Decimal]] = {
    "cos": cos,
    "erf": erf,
    "exp": lambda x: x.exp(),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "log": lambda x: x.ln(),
    "pow": lambda x, y: (y * x.ln()).exp(),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "sin": sin,
    "tanh": tanh,
}

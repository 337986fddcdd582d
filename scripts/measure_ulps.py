"""Measure the greatest errors of exp, log, .. over all f32, for docs/language.md.

    python scripts/measure_ulps.py exp tanh
    python scripts/measure_ulps.py --every 1009

Runs the C backend on one rank, on every bit pattern (of pow, on as many random pairs),
and compares with f64 functions of numpy and torch, whose own errors do not show.  Takes
one to three minutes per function.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import coconet as cc
from coconet.ops import elementwise_function
from coconet.plan.expansions import EXPANSIONS

CHUNK = 1 << 18
PATTERNS = 1 << 32
ROOT_HALF = 0.7071067811865476

Array = np.ndarray[Any, Any]


def erf(x: Array) -> Array:
    """Return torch's error function."""
    return torch.erf(torch.from_numpy(x)).numpy()


def gelu(x: Array) -> Array:
    """Return x times the normal distribution, by erfc."""
    return limited(x, x * torch.erfc(torch.from_numpy(x * -ROOT_HALF)).numpy() / 2)


def gelu_tanh(x: Array) -> Array:
    """Return PyTorch's fit of it."""
    return limited(x, x * sigmoid(1.5957691216057308 * (x + 0.044715 * x**3)))


def sigmoid(x: Array) -> Array:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    """Return x times it."""
    return limited(x, x * sigmoid(x))


def limited(x: Array, y: Array) -> Array:
    """Return a product, at -inf its limit."""
    return np.where(x == -np.inf, -0.0, y)


REFERENCES: dict[str, Callable[..., Array]] = {
    "cos": np.cos,
    "erf": erf,
    "exp": np.exp,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "log": np.log,
    "pow": np.power,
    "sigmoid": sigmoid,
    "silu": silu,
    "sin": np.sin,
    "tanh": np.tanh,
}


@dataclass
class Worst:
    """The greatest error so far, in units in the last place, and where it is."""

    ulps: float = 0.0
    at: tuple[float, ...] = ()
    differing_nans: int = 0

    def see(self, got: Array, need: Array, operands: list[Array]) -> None:
        """Compare a chunk."""
        self.differing_nans += int((np.isnan(got) != np.isnan(need)).sum())
        # beyond the greatest number the grid goes on, up to 2 ** 128
        a, b = (
            np.clip(x.astype(np.float64), -(2.0**128), 2.0**128) for x in (got, need)
        )
        exponents = (b.view(np.int64) >> 52) & 2047
        units = ((np.maximum(exponents, 1023 - 126) - 23) << 52).view(np.float64)
        errors = np.nan_to_num(np.abs(a - b) / units)
        where = int(errors.argmax())
        if errors[where] > self.ulps:
            self.ulps = float(errors[where])
            self.at = tuple(float(x[where]) for x in operands)


def compiled(name: str) -> Any:
    """Return the function as a program on one rank: y = f(x, ..)."""
    group, (n,) = cc.Group("one"), cc.dims("N")
    arity = 2 if name == "pow" else 1
    names = ["y", "a", "b"][: 1 + arity]
    y, *xs = (cc.tensor(t, cc.f32, (n,), cc.Replicated(), group) for t in names)
    made = cc.update(y, elementwise_function(name)(*xs))
    return cc.compile(cc.program(f"measured_{name}", inputs=[y, *xs], outputs=[made]))


def measure(name: str, every: int) -> Worst:
    """Return the worst of one function on every n-th bit pattern."""
    worst = Worst()
    rng = np.random.default_rng(0)
    y = np.empty(CHUNK, np.float32)
    operands = [np.empty(CHUNK, np.float32) for _ in range(2 if name == "pow" else 1)]
    step = compiled(name).bind(**dict(zip("yab", [y, *operands], strict=False)))
    for start in range(0, PATTERNS, CHUNK * every):
        if name == "pow":
            for operand, (low, high) in zip(operands, pow_ranges(rng), strict=True):
                operand[:] = rng.uniform(low, high, CHUNK)
        else:
            bits = np.arange(start, start + CHUNK * every, every) % PATTERNS
            operands[0][:] = bits.astype(np.uint32).view(np.float32)
        step()
        with np.errstate(all="ignore"):
            need = REFERENCES[name](*(x.astype(np.float64) for x in operands))
            worst.see(y, need, operands)
    return worst


def pow_ranges(rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return where to draw base and exponent from, so that few results overflow."""
    top = float(np.exp2(rng.uniform(-100, 100)))
    reach = 130 / max(abs(np.log2(top)), 0.1)
    return [(top / 4, top), (-reach, reach)]


def main() -> None:
    """Measure the functions named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *EXPANSIONS], default=[])
    parser.add_argument("--every", type=int, default=1, help="of so many patterns one")
    given = parser.parse_args()
    cc.init()
    for name in given.names or EXPANSIONS:
        worst = measure(name, given.every)
        print(f"{name:10} {worst.ulps:.4f} ulps at {worst.at}", end="", flush=True)
        print(f", {worst.differing_nans} NaNs differ", flush=True)


if __name__ == "__main__":
    main()

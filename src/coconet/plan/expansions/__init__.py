"""Functions as expressions of + - * / and bits: one definition for every backend.

Straight-line code, the same for numpy, C and torch: nothing of a math library, no fused
multiply-add, no table indexed by data.  f32 is computed in f32 where that is accurate,
else in f64; docs/language.md states the errors.  The coefficients are minimax fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coconet.ir import DType
from coconet.plan.expansions.circle import cos, sin
from coconet.plan.expansions.erf import erf
from coconet.plan.expansions.exp import exp
from coconet.plan.expansions.gelu import gelu, gelu_tanh
from coconet.plan.expansions.log import log
from coconet.plan.expansions.power import power
from coconet.plan.expansions.sigmoid import sigmoid, silu
from coconet.plan.expansions.tanh import tanh
from coconet.plan.expansions.term import Arithmetic, Term

__all__ = ["EXPANSIONS", "Arithmetic", "expand"]

EXPANSIONS: dict[str, Callable[..., Term]] = {
    "cos": cos,
    "erf": erf,
    "exp": exp,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "log": log,
    "pow": power,
    "sigmoid": sigmoid,
    "silu": silu,
    "sin": sin,
    "tanh": tanh,
}
"""Name of an element-wise op -> its expansion, on f32 and f64."""


def expand(name: str, arithmetic: Arithmetic, dtype: DType, *operands: Any) -> Any:
    """Apply an expansion to operands of this dtype, f32 or f64."""
    terms = (Term(arithmetic, operand, dtype) for operand in operands)
    return EXPANSIONS[name](*terms).operand

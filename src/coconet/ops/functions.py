"""The user's functions of element-wise ops that have no operator."""

from __future__ import annotations

from typing import Any

from coconet.ops.elementwise import Elementwise, elementwise_function

__all__ = [
    "abs_",
    "clamp",
    "cos",
    "equal",
    "erf",
    "exp",
    "gelu",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "not_equal",
    "relu",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sqrt",
    "tanh",
]

abs_ = elementwise_function("abs")
clamp = elementwise_function("clamp")
cos = elementwise_function("cos")
equal = elementwise_function("equal")
erf = elementwise_function("erf")
exp = elementwise_function("exp")
log = elementwise_function("log")
logical_and = elementwise_function("logical_and")
logical_not = elementwise_function("logical_not")
logical_or = elementwise_function("logical_or")
maximum = elementwise_function("maximum")
minimum = elementwise_function("minimum")
not_equal = elementwise_function("not_equal")
relu = elementwise_function("relu")
rsqrt = elementwise_function("rsqrt")
sigmoid = elementwise_function("sigmoid")
silu = elementwise_function("silu")
sin = elementwise_function("sin")
sqrt = elementwise_function("sqrt")
tanh = elementwise_function("tanh")


def gelu(x: Any, *, approximate: str = "none") -> Any:
    """Return x * (1 + erf(x / sqrt(2))) / 2, or PyTorch's fit of it by "tanh".

    Raises ValueError for another approximation.
    """
    names = {"none": "gelu", "tanh": "gelu_tanh"}
    if approximate not in names:
        raise ValueError(f'gelu is approximate="none" or "tanh", got {approximate!r}')
    return Elementwise(names[approximate]).of(x)

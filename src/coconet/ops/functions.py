"""The user's functions of element-wise ops that have no operator."""

from __future__ import annotations

from coconet.ops.elementwise import elementwise_function

__all__ = [
    "abs_",
    "clamp",
    "equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "not_equal",
    "relu",
    "rsqrt",
    "sqrt",
]

abs_ = elementwise_function("abs")
clamp = elementwise_function("clamp")
equal = elementwise_function("equal")
logical_and = elementwise_function("logical_and")
logical_not = elementwise_function("logical_not")
logical_or = elementwise_function("logical_or")
maximum = elementwise_function("maximum")
minimum = elementwise_function("minimum")
not_equal = elementwise_function("not_equal")
relu = elementwise_function("relu")
rsqrt = elementwise_function("rsqrt")
sqrt = elementwise_function("sqrt")

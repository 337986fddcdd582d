"""What element types parameters and their gradients have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch

from coconet.errors import UnsupportedError
from coconet.ir import DType, bf16, f16, f32, f64

__all__ = ["DTYPES", "Kind", "by_kind", "set_grad_dtype"]

DTYPES = {
    torch.float16: f16,
    torch.bfloat16: bf16,
    torch.float32: f32,
    torch.float64: f64,
}
"""Those that parameters and gradients may have."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The types that parameters in one flat buffer share."""

    dtype: DType
    grad_dtype: DType

    @classmethod
    def of(cls, param: torch.Tensor) -> Self:
        """Return the kind of a parameter.

        Raises UnsupportedError if its gradients are not f16, bf16, f32 or f64.
        """
        grad_dtype = param.grad_dtype or param.dtype
        if grad_dtype not in DTYPES:
            raise UnsupportedError(
                "gradients of this dtype are not supported",
                got=f"grad_dtype {grad_dtype}",
                need=" or ".join(str(dtype) for dtype in DTYPES),
                fix="param.grad_dtype = param.dtype",
            )
        return cls(DTYPES[param.dtype], DTYPES[grad_dtype])

    def exchange(self, reduction: str, ranks: int) -> tuple[str, float]:
        """Return how gradients are reduced, and what to multiply the result by.

        A sum of 16-bit gradients is their mean times the ranks: it cannot overflow.
        """
        if reduction == "sum" and self.grad_dtype.itemsize < f32.itemsize:
            return "mean", float(ranks)
        return reduction, 1.0


def by_kind(params: Iterable[torch.Tensor]) -> dict[Kind, list[torch.Tensor]]:
    """Return parameters with those of one kind together, otherwise in order."""
    found: dict[Kind, list[torch.Tensor]] = {}
    for param in params:
        found.setdefault(Kind.of(param), []).append(param)
    return found


def set_grad_dtype(param: torch.Tensor, dtype: torch.dtype) -> None:
    """Have autograd make a parameter's gradients, and add them up, in this dtype."""
    if param.grad_dtype != dtype:
        grad, param.grad = param.grad, None  # torch changes it only without one
        param.grad_dtype = dtype
        param.grad = None if grad is None else grad.to(dtype)

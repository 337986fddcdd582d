"""Where an update's gradient comes from, and which elements it changes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from coconet.dsl import Tensor, program, scalar, tensor
from coconet.ir import (
    FLAT,
    DType,
    Group,
    Layout,
    Local,
    Program,
    Replicated,
    Sliced,
    bool_,
    dims,
    f32,
    f64,
)
from coconet.ops import all_gather, all_reduce, cast, reduce_scatter, update, where
from coconet.ops.functions import equal

__all__ = ["MASTER", "Step", "Variant", "reduced"]

(N,) = dims("N")
DP = Group("dp")

MASTER = "master"
"""The state that holds the f32 weights of parameters with fewer bits."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What a step of any optimizer depends on besides its own options.

    dtype, grad_dtype  of the parameters and of the gradients that ranks exchange
    reduction   "mean" or "sum" of the ranks' gradients
    maximize    go up the gradient
    is_scaled   the reduced gradient is multiplied by a scalar
    is_reduced  the gradient was reduced before: see `reduced`
    is_masked   only elements that a mask names are changed
    """

    dtype: DType = f32
    grad_dtype: DType = f32
    reduction: str = "mean"
    maximize: bool = False
    is_scaled: bool = False
    is_reduced: bool = False
    is_masked: bool = False

    @property
    def exact(self) -> DType:
        """What a step computes in, and keeps as state."""
        return f64 if self.dtype is f64 else f32


class Step:
    """The inputs that every optimizer has, and how its update ends.

    Everything is computed in f32, or f64 for f64 parameters.  For 16-bit parameters
    the state `master` holds the weights, and the parameters are a rounded copy.  Those
    that are not, being new or written by someone else, are weights themselves.

    Fields  grad     the reduced gradient, to be descended
            weights  the parameters, exactly
    """

    def __init__(self, variant: Variant) -> None:
        """Declare them."""
        dtype = self._dtype = variant.dtype
        exact = self._exact = variant.exact
        self.inputs: list[Tensor] = []
        self.updates: list[Tensor] = []
        self.grad = self._reduced(variant)
        self._p = self._input("p", Replicated(), dtype)
        self._mask = None
        if variant.is_masked:
            self._mask = self._input("mask", Replicated(), bool_)
        self._master: Tensor | None = None
        self.weights: Any = self._p
        if dtype is not exact:
            self._master = self.state(MASTER)
            is_copy = equal(cast(self._master, dtype), self._p)
            self.weights = where(is_copy, self._master, cast(self._p, exact))

    def _reduced(self, variant: Variant) -> Any:
        """Return the gradient that all ranks agree on, to be descended."""
        if variant.is_reduced:
            grad = all_gather(self._input("a", Sliced(FLAT), variant.grad_dtype))
        else:
            g = self._input("g", Local(), variant.grad_dtype)
            grad = all_reduce(g, variant.reduction)
        if variant.grad_dtype is not self._exact:
            grad = cast(grad, self._exact)
        if variant.is_scaled:
            grad = grad * scalar("scale")
        return -grad if variant.maximize else grad

    def _input(self, name: str, layout: Layout, dtype: DType) -> Tensor:
        made = declare(name, layout, dtype)
        self.inputs.append(made)
        return made

    def state(self, name: str) -> Tensor:
        """Declare a tensor that is kept between steps."""
        return self._input(name, Replicated(), self._exact)

    def store(self, target: Tensor, value: Any) -> None:
        """Give a tensor its new value, where the mask holds."""
        if self._mask is not None:
            value = where(self._mask, value, target)
        self.updates.append(update(target, value))

    def store_weights(self, value: Any) -> None:
        """Give the parameters their new value."""
        if self._master is not None:
            self.store(self._master, value)
            value = cast(value, self._dtype)
        self.store(self._p, value)

    def program(self, name: str) -> Program:
        """Return the program that makes all these updates."""
        return program(name, inputs=self.inputs, outputs=self.updates)


def declare(name: str, layout: Layout, dtype: DType) -> Tensor:
    """Declare a tensor of N elements."""
    return tensor(name, dtype, (N,), layout, DP)


@functools.cache
def reduced(reduction: str, dtype: DType) -> Program:
    """Reduce the gradients g; each rank keeps its piece, in a."""
    g = declare("g", Local(), dtype)
    a = declare("a", Sliced(FLAT), dtype)
    average = reduce_scatter(g, reduction, FLAT)
    a1 = update(a, average)
    return program("reduced", inputs=[g, a], outputs=[a1])

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
from coconet.ops import all_gather, all_reduce, reduce_scatter, update, where

__all__ = ["Step", "Variant", "reduced", "shared"]

(N,) = dims("N")
DP = Group("dp")


@dataclass(frozen=True, slots=True)
class Variant:
    """What a step of any optimizer depends on besides its own options.

    reduction  "mean" or "sum" of the ranks' gradients
    maximize   go up the gradient
    is_scaled  the gradient was reduced before (see `reduced`), and is to be scaled
    is_masked  only elements that a mask names are changed
    """

    reduction: str = "mean"
    maximize: bool = False
    is_scaled: bool = False
    is_masked: bool = False


class Step:
    """The inputs that every optimizer has, and how its update ends.

    Fields  grad  the reduced gradient, to be descended
            p     the parameters
    """

    def __init__(self, variant: Variant) -> None:
        """Declare them."""
        self.p = declare("p", Replicated())
        if variant.is_scaled:
            a = declare("a", Sliced(FLAT))
            grad = all_gather(a)
            scale = scalar("scale")
            self.grad = grad * scale
        else:
            a = declare("g", Local())
            grad = all_reduce(a, variant.reduction)
            self.grad = grad
        if variant.maximize:
            self.grad = -self.grad
        self.mask = declare("mask", Replicated(), bool_) if variant.is_masked else None
        self.inputs: list[Tensor] = [a, self.p]
        if self.mask is not None:
            self.inputs.append(self.mask)
        self.updates: list[Tensor] = []

    def state(self, name: str) -> Tensor:
        """Declare a tensor that is kept between steps."""
        made = declare(name, Replicated())
        self.inputs.append(made)
        return made

    def store(self, target: Tensor, value: Any) -> None:
        """Give a tensor its new value, where the mask holds."""
        if self.mask is not None:
            value = where(self.mask, value, target)
        self.updates.append(update(target, value))

    def program(self, name: str) -> Program:
        """Return the program that makes all these updates."""
        return program(name, inputs=self.inputs, outputs=self.updates)


def declare(name: str, layout: Layout, dtype: DType = f32) -> Tensor:
    """Declare a tensor of N elements."""
    return tensor(name, dtype, (N,), layout, DP)


@functools.cache
def reduced(reduction: str) -> Program:
    """Reduce the gradients g; each rank keeps its piece, in a."""
    g = declare("g", Local())
    a = declare("a", Sliced(FLAT))
    average = reduce_scatter(g, reduction, FLAT)
    a1 = update(a, average)
    return program("reduced", inputs=[g, a], outputs=[a1])


@functools.cache
def shared() -> Program:
    """Add a few numbers x of every rank, into total."""
    x = declare("x", Local(), f64)
    total = declare("total", Replicated(), f64)
    added = all_reduce(x)
    total1 = update(total, added)
    return program("shared", inputs=[x, total], outputs=[total1])

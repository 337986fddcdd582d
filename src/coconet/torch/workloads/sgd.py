"""SGD with momentum, with the formulas of torch.optim."""

from __future__ import annotations

import functools

from coconet.dsl import scalar
from coconet.ir import Program
from coconet.torch.workloads.gradient import Step, Variant

__all__ = ["sgd"]


@functools.cache
def sgd(
    variant: Variant, *, has_decay: bool, has_momentum: bool, nesterov: bool
) -> Program:
    """One step of SGD.

    The momentum buffer becomes keep * itself + take * gradient: momentum and
    1 - dampening, but 0 and 1 in the first step.
    """
    step = Step(variant)
    lr = scalar("lr")
    grad = step.grad
    if has_decay:
        grad = grad + scalar("weight_decay") * step.weights
    if has_momentum:
        momentum_buffer = step.state("momentum_buffer")
        keep, take = scalar("keep"), scalar("take")
        moved = keep * momentum_buffer + take * grad
        step.store(momentum_buffer, moved)
        grad = grad + scalar("momentum") * moved if nesterov else moved
    step.store_weights(step.weights - lr * grad)
    return step.program("sgd")

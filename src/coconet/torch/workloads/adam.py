"""Adam and AdamW, with the formulas and the roundings of torch.optim."""

from __future__ import annotations

import functools

from coconet.dsl import scalar
from coconet.ir import Program, i64
from coconet.ops.functions import maximum, sqrt
from coconet.torch.workloads.gradient import Step, Variant

__all__ = ["adam"]


@functools.cache
def adam(
    variant: Variant, *, has_decay: bool, is_decoupled: bool, amsgrad: bool
) -> Program:
    """One step of Adam (Kingma and Ba, 2015; amsgrad: Reddi et al., 2018).

    has_decay     by weight_decay: added to the gradient (L2), or
    is_decoupled  taken off the parameters (AdamW: Loshchilov and Hutter, 2019)
    """
    step = Step(variant)
    exp_avg, exp_avg_sq = step.state("exp_avg"), step.state("exp_avg_sq")
    lr, beta1, beta2 = scalar("lr"), scalar("beta1"), scalar("beta2")
    eps, t = scalar("eps"), scalar("t", i64)

    grad, weights = step.grad, step.weights
    if has_decay and is_decoupled:
        weights = weights * (1 - lr * scalar("weight_decay"))
    elif has_decay:
        grad = grad + scalar("weight_decay") * weights
    mean = beta1 * exp_avg + (1 - beta1) * grad
    square = beta2 * exp_avg_sq + (1 - beta2) * grad * grad
    step.store(exp_avg, mean)
    step.store(exp_avg_sq, square)
    if amsgrad:
        largest = step.state("max_exp_avg_sq")
        square = maximum(largest, square)
        step.store(largest, square)
    step_size = lr / (1 - beta1**t)
    root = sqrt(square) / (1 - beta2**t) ** 0.5
    step.store_weights(weights - step_size * mean / (root + eps))
    return step.program("adamw" if is_decoupled else "adam")

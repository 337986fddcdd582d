"""Data-parallel optimizers: the gradients' all-reduce and the update, as programs.

Each works on one flat tensor of N elements: g is this rank's gradient, p the
parameters.  Scalars are passed at every call.
"""

from __future__ import annotations

import coconet as cc

__all__ = ["ADAM_STATE", "adam", "sgd"]

ADAM_STATE = ("m", "v")
"""What Adam's caller may keep in pieces: see slice_state."""


def _sgd() -> cc.Program:
    """SGD: p -= lr * mean of g."""
    (N,) = cc.dims("N")
    dp = cc.Group("dp")
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), dp)
    p = cc.tensor("p", cc.f32, (N,), cc.Replicated(), dp)
    lr = cc.scalar("lr")
    avg = cc.all_reduce(g, "mean")
    p1 = cc.update(p, p - lr * avg)
    return cc.program("sgd", inputs=[g, p, lr], outputs=[p1])


def _adam() -> cc.Program:
    """Adam (Kingma and Ba, 2015), bias correction as torch.optim.Adam has it.

    m and v are the moments; t counts the steps from 1.
    """
    (N,) = cc.dims("N")
    dp = cc.Group("dp")
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), dp)
    p = cc.tensor("p", cc.f32, (N,), cc.Replicated(), dp)
    m = cc.tensor("m", cc.f32, (N,), cc.Replicated(), dp)
    v = cc.tensor("v", cc.f32, (N,), cc.Replicated(), dp)
    lr, beta1, beta2 = cc.scalar("lr"), cc.scalar("beta1"), cc.scalar("beta2")
    eps, t = cc.scalar("eps"), cc.scalar("t", cc.i64)

    avg = cc.all_reduce(g, "mean")
    m1 = cc.update(m, beta1 * m + (1 - beta1) * avg)
    v1 = cc.update(v, beta2 * v + (1 - beta2) * avg * avg)
    step_size = lr / (1 - beta1**t)
    root = cc.sqrt(v1) * (1 / (1 - beta2**t) ** 0.5)
    p1 = cc.update(p, p - step_size * m1 / (root + eps))
    inputs = [g, p, m, v, lr, beta1, beta2, eps, t]
    return cc.program("adam", inputs=inputs, outputs=[m1, v1, p1])


sgd = _sgd()
adam = _adam()

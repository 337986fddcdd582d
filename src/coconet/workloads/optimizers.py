"""Data-parallel optimizers: the gradients' all-reduce and the update, as programs.

Each works on one flat tensor of N elements: g is this rank's gradient, p the
parameters.  Scalars are passed at every call.  The mixed ones take a 16-bit g and p;
what they compute with are f32 master weights w, and p is a rounded copy of them.
"""

from __future__ import annotations

import coconet as cc

__all__ = [
    "ADAM_MIXED_STATE",
    "ADAM_STATE",
    "SGD_MIXED_STATE",
    "adam",
    "adam_mixed",
    "adam_mixed_f16",
    "sgd",
    "sgd_mixed",
    "sgd_mixed_f16",
]

ADAM_STATE = ("m", "v")
SGD_MIXED_STATE = ("w",)
ADAM_MIXED_STATE = ("w", "m", "v")
"""What the caller of each may keep in pieces: see slice_state."""


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


def _sgd_mixed(half: cc.DType, name: str) -> cc.Program:
    """SGD on f32 master weights; the ranks exchange 16 bits, rounded once each way."""
    (N,) = cc.dims("N")
    dp = cc.Group("dp")
    g = cc.tensor("g", half, (N,), cc.Local(), dp)
    p = cc.tensor("p", half, (N,), cc.Replicated(), dp)
    w = cc.tensor("w", cc.f32, (N,), cc.Replicated(), dp)
    lr = cc.scalar("lr")
    avg = cc.cast(cc.all_reduce(g, "mean"), cc.f32)
    w1 = cc.update(w, w - lr * avg)
    p1 = cc.update(p, cc.cast(w1, half))
    return cc.program(name, inputs=[g, p, w, lr], outputs=[w1, p1])


def _adam_mixed(half: cc.DType, name: str) -> cc.Program:
    """Adam on f32 master weights and moments, otherwise as adam."""
    (N,) = cc.dims("N")
    dp = cc.Group("dp")
    g = cc.tensor("g", half, (N,), cc.Local(), dp)
    p = cc.tensor("p", half, (N,), cc.Replicated(), dp)
    w = cc.tensor("w", cc.f32, (N,), cc.Replicated(), dp)
    m = cc.tensor("m", cc.f32, (N,), cc.Replicated(), dp)
    v = cc.tensor("v", cc.f32, (N,), cc.Replicated(), dp)
    lr, beta1, beta2 = cc.scalar("lr"), cc.scalar("beta1"), cc.scalar("beta2")
    eps, t = cc.scalar("eps"), cc.scalar("t", cc.i64)

    avg = cc.cast(cc.all_reduce(g, "mean"), cc.f32)
    m1 = cc.update(m, beta1 * m + (1 - beta1) * avg)
    v1 = cc.update(v, beta2 * v + (1 - beta2) * avg * avg)
    step_size = lr / (1 - beta1**t)
    root = cc.sqrt(v1) * (1 / (1 - beta2**t) ** 0.5)
    w1 = cc.update(w, w - step_size * m1 / (root + eps))
    p1 = cc.update(p, cc.cast(w1, half))
    inputs = [g, p, w, m, v, lr, beta1, beta2, eps, t]
    return cc.program(name, inputs=inputs, outputs=[m1, v1, w1, p1])


sgd = _sgd()
adam = _adam()
sgd_mixed = _sgd_mixed(cc.bf16, "sgd_mixed")
sgd_mixed_f16 = _sgd_mixed(cc.f16, "sgd_mixed_f16")
adam_mixed = _adam_mixed(cc.bf16, "adam_mixed")
adam_mixed_f16 = _adam_mixed(cc.f16, "adam_mixed_f16")

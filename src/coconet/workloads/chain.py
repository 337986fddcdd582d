"""Random chains of element-wise ops: programs that no kernel was written for."""

from __future__ import annotations

import random

import coconet as cc

__all__ = ["random_chain"]


def random_chain(*, seed: int, length: int = 16) -> cc.Program:
    """Return a chain with the traffic of an Adam step, drawn by a seed.

    g (Local) is averaged, then `length` random ops combine it with p, m, v and the
    scalar a; p, m and v (Replicated, N elements, f32) are updated.
    """
    draw = random.Random(seed)
    (N,) = cc.dims("N")
    dp = cc.Group("dp")
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), dp)
    p, m, v = (cc.tensor(x, cc.f32, (N,), cc.Replicated(), dp) for x in "pmv")
    a = cc.scalar("a")

    average = cc.all_reduce(g, "mean")
    known = [average, p, m, v]
    for _ in range(length):
        x, y = draw.choice(known), draw.choice(known)
        known.append(_combined(draw.randrange(6), x, y, a))
    # every update depends on the average, so that all of it can run on pieces
    ends = [known[-1] + a * average, known[-2] - average * m, known[-3] * average + v]
    updates = [cc.update(t, e) for t, e in zip((p, m, v), ends, strict=True)]
    return cc.program("chain", inputs=[g, p, m, v, a], outputs=updates)


def _combined(kind: int, x: cc.Tensor, y: cc.Tensor, a: cc.Tensor) -> cc.Tensor:
    match kind:
        case 0:
            return x + y
        case 1:
            return x - a * y
        case 2:
            return x * y
        case 3:
            return cc.maximum(x, y)
        case 4:
            return cc.where(x < y, x, y * a)
        case _:
            return cc.sqrt(cc.abs_(x)) / (y * y + 1)

"""Small programs whose search spaces differ in every way that the search knows."""

from __future__ import annotations

from small_programs import M, N, program, tensor

import coconet as cc
from coconet.workloads.optimizers import adam, adam_mixed, sgd

__all__ = ["SEARCHED", "many_parameters"]


def _alone():
    g = tensor("g", cc.Local())
    return program(cc.all_reduce(g), inputs=[g])


def _epilogue():
    g, b = tensor("g", cc.Local()), tensor("b")
    return program(cc.relu(cc.all_reduce(g) + b), inputs=[g, b])


def _product():
    g, h = tensor("g", cc.Local()), tensor("h", cc.Local())
    return program(cc.all_reduce(g) * cc.all_reduce(h), inputs=[g, h])


def _one_after_the_other():
    g, h, m = tensor("g", cc.Local()), tensor("h", cc.Local()), tensor("m")
    scaled = cc.all_reduce(g) * m
    return program(scaled * 2, scaled * cc.all_reduce(h) + 1, inputs=[g, h, m])


def _prologue():
    g, m = tensor("g", cc.Local()), tensor("m")
    twice = g * 2
    shifted = twice + m
    total = cc.all_reduce(twice) + cc.all_reduce(shifted)
    return program(total, inputs=[g, m])


def _broadcast():
    x, g = tensor("x", shape=(M, N)), tensor("g", cc.Local())
    total = cc.all_reduce(g)
    return program(x * total + 1, total * 2, inputs=[x, g])


def _updated_and_read():
    g, m = tensor("g", cc.Local()), tensor("m")
    m1 = cc.update(m, m + cc.all_reduce(g))
    return program(m1, m1 * 2, inputs=[g, m])


def _no_collective():
    x, y, z = tensor("x"), tensor("y"), tensor("z", shape=(M, N))
    return program(x * 2, x + 1, y * 3, z + 1, inputs=[x, y, z])


def _gathered():
    x = tensor("x", cc.Sliced(cc.FLAT))
    return program(cc.all_gather(x) * 2 + 1, inputs=[x])


def _normed():
    g, p = tensor("g", cc.Local()), tensor("p")
    avg = cc.all_reduce(g, "mean")
    return program(cc.update(p, p - avg / cc.norm(avg)), inputs=[g, p])


def _centered():
    g, x = tensor("g", cc.Local(), (M, N)), tensor("x", shape=(M, N))
    y = cc.all_reduce(g) + x
    return program(y - cc.mean(y, dim=1, keepdim=True), inputs=[g, x])


def many_parameters(count):
    """SGD on several parameters, each with its own gradient."""
    g = [tensor(f"g{i}", cc.Local()) for i in range(count)]
    p = [tensor(f"p{i}") for i in range(count)]
    pairs = zip(p, g, strict=True)
    return program(
        *(cc.update(x, x - cc.all_reduce(y)) for x, y in pairs), inputs=g + p
    )


SEARCHED = {
    "sgd": (sgd, 4),
    "adam": (adam, 4),
    "adam_mixed": (adam_mixed, 4),
    "alone": (_alone(), 2),
    "epilogue": (_epilogue(), 4),
    "product": (_product(), 10),
    "one_after_the_other": (_one_after_the_other(), 12),
    "prologue": (_prologue(), 10),
    "broadcast": (_broadcast(), 4),
    "updated_and_read": (_updated_and_read(), 4),
    "no_collective": (_no_collective(), 2),
    "gathered": (_gathered(), 3),
    "normed": (_normed(), 4),
    "centered": (_centered(), 5),
    "two_parameters": (many_parameters(2), 10),
}
"""Programs, and how many schedules each has: counted by hand where it is four or less.
"""

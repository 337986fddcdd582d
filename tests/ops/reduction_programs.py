"""Programs with reductions and views, on every layout: shared by several tests."""

from __future__ import annotations

from collections.abc import Iterator

import coconet as cc
from coconet.ir import Cut, DType, Layout

A, B, C = cc.dims("A B C")
GROUP = cc.Group("dp")
KINDS = ("sum", "mean", "max", "min", "prod", "norm_1", "norm_2", "norm_inf")

CUTS: tuple[tuple[Cut, tuple[int, ...] | None], ...] = (
    (cc.FLAT, None),
    (0, None),
    (1, None),
    (2, None),
    (0, (0,)),
    (1, (0,)),
    (1, (1, 2)),
    (2, (0, 1)),
    (2, (0, 2)),
    (0, (2,)),
    (cc.ROWS(1), (2,)),
    (cc.ROWS(2), (1,)),
    (cc.ROWS(2), (2, 1)),
    (cc.ROWS(3), None),
)
"""How a tensor of three dims is cut, and over which dims it is reduced."""


def reduced(
    kind: str,
    layout: Layout,
    dims: tuple[int, ...] | None = None,
    *,
    dtype: DType = cc.f32,
    keepdim: bool = False,
) -> cc.Program:
    """Return a program of one reduction, and of the reduced beside its input."""
    x = cc.tensor("x", dtype, (A, B, C), layout, GROUP)
    if kind.startswith("norm"):
        ord = {"norm_1": 1, "norm_2": 2, "norm_inf": float("inf")}[kind]
        out = cc.norm(x, dims, keepdim, ord=ord)
    else:
        functions = {
            "sum": cc.sum_,
            "mean": cc.mean,
            "max": cc.max_,
            "min": cc.min_,
            "prod": cc.prod,
        }
        out = functions[kind](x, dims, keepdim)
    outputs = [out]
    if keepdim or (dims is None and isinstance(out.type.layout, cc.Replicated)):
        outputs.append(x - out)
    return cc.program("reduced", inputs=[x], outputs=list(map(_shared, outputs)))


def _shared(x: cc.Tensor) -> cc.Tensor:
    """Return a value that a program may give back without a warning."""
    return cc.all_reduce(x) if isinstance(x.type.layout, cc.Local) else x


def reductions() -> Iterator[cc.Program]:
    """Yield a program for each layout and kind, in turn."""
    for number, (cut, dims) in enumerate(CUTS):
        for keepdim in (False, True):
            kind = KINDS[(2 * number + keepdim) % len(KINDS)]
            yield reduced(kind, cc.Sliced(cut), dims, keepdim=keepdim)
    for number, dims in enumerate([None, (0,), (1,), (2,), (0, 2), ()]):
        for layout in (cc.Replicated(), cc.Local()):
            yield reduced(KINDS[number], layout, dims, keepdim=number % 2 == 1)


def views() -> Iterator[cc.Program]:
    """Yield programs of reshape, transpose, index and concat."""
    for layout in (cc.Replicated(), cc.Local(), cc.Sliced(1), cc.Sliced(2)):
        x = cc.tensor("x", cc.f32, (A, B, C), layout, GROUP)
        turned = cc.transpose(x, (2, 0, 1))
        back = cc.transpose(turned, (2, 1, 0)) * 2.0
        yield cc.program(
            "transposed", inputs=[x], outputs=[_shared(turned), _shared(back)]
        )
    for layout in (cc.Replicated(), cc.Sliced(1), cc.Sliced(2)):
        x = cc.tensor("x", cc.bf16, (4, A, B), layout, GROUP)
        row, rows = cc.index(x, 0, 2), cc.index(x, 0, 1, 3)
        both = cc.concat([rows, x, rows * 0.5], 0)
        yield cc.program("indexed", inputs=[x], outputs=[row, rows, both])
    for layout, shape in (
        (cc.Replicated(), (B, A, C)),
        (cc.Sliced(cc.FLAT), (C, A, B)),
        (cc.Sliced(0), (A, C, B)),
        (cc.Sliced(cc.ROWS(1)), (B, A, C)),
    ):
        x = cc.tensor("x", cc.i32, (A, B, C), layout, GROUP)
        other = cc.reshape(x, shape)
        yield cc.program("reshaped", inputs=[x], outputs=[other, other + 1])
    x = cc.tensor("x", cc.f32, (A, B, C), cc.Sliced(2), GROUP)
    w = cc.tensor("w", cc.f32, (B, C), cc.Sliced(1), GROUP)
    yield cc.program("beside", inputs=[x, w], outputs=[x * w])


SIZES = (
    {"A": 3, "B": 5, "C": 7},
    {"A": 1, "B": 2, "C": 1},
    {"A": 0, "B": 3, "C": 2},
    {"A": 2, "B": 3, "C": 0},
    {"A": 13, "B": 11, "C": 17},
    {"A": 2, "B": 1, "C": 193},
)
"""Primes, ones and zeros; more than one leaf in a piece."""

"""Programs that the probes run, and what they must give on one rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from probes.truth import pieces, reduced

import coconet as cc
from coconet.ir import DTYPES
from coconet.schedule.library import fused

__all__ = [
    "CUTS",
    "DP",
    "DTYPES_OF_NUMBERS",
    "collectives",
    "collectives_need",
    "every_dtype",
    "one_update",
    "schedules",
]

DP = cc.Group("dp")
A, B, C, N = cc.dims("A B C N")
CUTS = (cc.FLAT, cc.ROWS(1), 0, 1, 2)
DTYPES_OF_NUMBERS = tuple(d for d in DTYPES.values() if d is not cc.bool_)


def one_update(dtype: cc.DType = cc.f32) -> cc.Program:
    """One all-reduce, an update and a result after it."""
    g = cc.tensor("g", dtype, (A, B, C), cc.Local(), DP)
    p = cc.tensor("p", dtype, (A, B, C), cc.Replicated(), DP)
    total = cc.all_reduce(g)
    p1 = cc.update(p, p - total)
    return cc.program("one_update", inputs=[g, p], outputs=[p1, total + total])


def schedules(program: cc.Program, *cuts: Any) -> dict[str, cc.Schedule]:
    """Return the ready schedules, and the fused one by other cuts."""
    found = cc.library(program, state=())
    return found | {f"by {cut}": fused(program, by=cut) for cut in cuts}


def collectives() -> cc.Program:
    """Every collective by every cut of a tensor with three dims."""
    x = cc.tensor("x", cc.f32, (A, B, C), cc.Local(), DP)
    r = cc.tensor("r", cc.f32, (A, B, C), cc.Replicated(), DP)
    parts = [
        cc.tensor(f"y{i}", cc.f32, (A, B, C), cc.Sliced(cut), DP)
        for i, cut in enumerate(CUTS)
    ]
    outputs = [cc.all_reduce(x), cc.all_reduce(x, "max")]
    for cut, part in zip(CUTS, parts, strict=True):
        outputs += [
            cc.reduce_scatter(x, "mean", cut),
            cc.all_gather(part),
            cc.slice_(r, cut),
        ]
    return cc.program("collectives", inputs=[x, r, *parts], outputs=outputs)


def collectives_need(xs: Sequence[Any], whole: Any, rank: int) -> list[Any]:
    """Return what `collectives` gives; r and all y are made of `whole`."""
    need = [reduced("sum", xs), reduced("max", xs)]
    mean = reduced("mean", xs)
    for cut in CUTS:
        mine, kept = (pieces(t, cut, len(xs))[rank] for t in (mean, whole))
        need += [mine, whole, kept]
    return [np.ascontiguousarray(array) for array in need]


def every_dtype() -> cc.Schedule:
    """An update after an all-reduce for each dtype, each of them one kernel."""
    gs = [cc.tensor(f"g_{d}", d, (N,), cc.Local(), DP) for d in DTYPES_OF_NUMBERS]
    ps = [cc.tensor(f"p_{d}", d, (N,), cc.Replicated(), DP) for d in DTYPES_OF_NUMBERS]
    totals = [cc.all_reduce(g) for g in gs]
    updates = [cc.update(p, p * t) for p, t in zip(ps, totals, strict=True)]
    draft = cc.program("every_dtype", inputs=[*gs, *ps], outputs=updates).schedule()
    for total, update in zip(totals, updates, strict=True):
        part, whole = draft.split(total)
        region, tail = draft.reorder(whole, [update])
        draft.fuse(part, region, tail)
    return draft.schedule

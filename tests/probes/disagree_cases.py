"""Ranks that call different things: each hears of it at once, and can go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from probes.cases import Cases
from probes.programs import DP, A, B, N
from probes.truth import check, pieces

import coconet as cc
from coconet.errors import CoconetError, DtypeError, RanksDisagree, ShapeError
from coconet.runtime.world import World
from coconet.workloads.optimizers import sgd

CASES = Cases()


def total(op: str = "sum", dtype: cc.DType = cc.f32, name: str = "total") -> Any:
    """Compile one all-reduce."""
    x = cc.tensor("x", dtype, (N,), cc.Local(), DP)
    return cc.compile(cc.program(name, inputs=[x], outputs=[cc.all_reduce(x, op)]))


def told(call: Callable[[], Any], kind: type[CoconetError], *words: str) -> None:
    """Check that a call raises this within seconds, in these words."""
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        call()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} are not in: {caught.value}"
    assert time.monotonic() - began < 5


@CASES.on(3)
def ranks_that_call_different_things(world: World) -> None:
    """NVIDIA/nccl#1417, #1394: other sizes on one rank gave a hang, or a wrong sum."""
    is_odd = world.rank == 1
    ones = np.ones(10, np.float32)
    step = total()

    def differ(odd: Callable[[], Any], *words: str) -> None:
        told(odd if is_odd else lambda: step(ones), RanksDisagree, "rank 1", *words)
        check("a call after it", step(ones), ones * world.size)

    differ(lambda: step(ones[:8]), "rank 0", "total", "f32[8]", "f32[10]")
    differ(lambda: step(ones[:0]), "f32[0]", "f32[10]")
    half = total(dtype=cc.f16)
    differ(lambda: half(ones.astype(np.float16)), "f16[10]", "f32[10]")
    for op in ("max", "mean", "prod"):
        other = total(op)
        differ(lambda: other(ones), "rank 0", "total")  # noqa: B023
    other = total(name="other")
    differ(lambda: other(ones), "program other", "program total")
    names = ("as_written", "fused")
    first, second = (cc.compile(cc.library(sgd)[name]) for name in names)
    p = np.ones(10, np.float32)
    call = second if is_odd else first
    told(lambda: call(ones, p, 0.5), RanksDisagree, "rank 1", "sgd")
    check("what was not updated", p, ones)
    first(ones, p, 0.5)
    check("what is updated", p, ones / 2)


@CASES.on(2, 3)
def an_error_of_the_short_rank_reaches_all(world: World) -> None:
    """pytorch/ao#3982, pytorch/pytorch#137005: one rank raised, the others waited."""
    x = cc.tensor("x", cc.f32, (A, B), cc.Sliced(0), DP)
    step = cc.compile(cc.program("most", inputs=[x], outputs=[cc.max_(x)]))
    whole = np.arange(15, dtype=np.float32).reshape(5, 3)
    last = world.size - 1
    mine = pieces(whole, 0, world.size)[world.rank]
    wrong = [
        (lambda: step.bind(sizes={"A": 5}, x=whole), ShapeError),
        (lambda: step.bind(sizes={"A": 5}, x=mine.astype(np.float64)), DtypeError),
        (lambda: step.bind(sizes={"A": 5}, x=mine[:, :2])(), RanksDisagree),
    ]
    for call, kind in wrong:
        if world.rank == last:
            told(call, kind)
        else:
            bound = step.bind(sizes={"A": 5}, x=mine)
            told(bound, RanksDisagree, f"rank {last}")
        check("a call after it", step.bind(sizes={"A": 5}, x=mine)(), np.float32(14))

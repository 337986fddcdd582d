"""How a compiled step is called, and what it refuses; every rank sees an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import coconet as cc
from coconet.errors import (
    DtypeError,
    GroupError,
    ProgramError,
    RanksDisagree,
    ShapeError,
    UnsupportedError,
)
from coconet.workloads.optimizers import adam, sgd

dp = cc.Group("dp")


def raises(kind: type[Exception], call: Callable[[], Any], *words: str) -> str:
    """Return "ok" if the call raises this error with these words in its text."""
    try:
        call()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        return "ok" if not missing else f"{missing} not in {error}"
    return "did not raise"


def check_calls() -> dict[str, str]:
    """Run on one rank; returns "ok" or what is wrong, by what was tried."""
    rank = cc.init().rank
    step = cc.compile(cc.library(sgd)["fused"])
    checks: dict[str, str] = {}

    g, p = np.full(100, 1.0 + rank, np.float32), np.ones(100, np.float32)
    for _ in range(2):
        step(g, p, 0.5)
    checks["positional"] = "ok" if (p == 1 - 2 * 0.75).all() else str(p)
    step(p=p, lr=0.5, g=g)
    checks["by name"] = "ok" if (p == 1 - 3 * 0.75).all() else str(p)

    def differs(mine: Any, theirs: Any) -> Any:
        return mine if rank == 0 else theirs

    long = np.ones(101, np.float32)
    checks["sizes differ"] = raises(
        RanksDisagree,
        lambda: step(differs(g, long), differs(p, long.copy()), 0.5),
        "[101]",
    )
    checks["scalars differ"] = raises(
        RanksDisagree, lambda: step(g, p, differs(0.5, 0.25)), "lr", "0.5", "0.25"
    )
    bad_dtype = g.astype(np.float64)
    checks["one rank's dtype is wrong"] = raises(
        differs(DtypeError, RanksDisagree),
        lambda: step(differs(bad_dtype, g), p, 0.5),
        "g",
    )
    checks["one rank's shape is wrong"] = raises(
        differs(RanksDisagree, ShapeError), lambda: step(differs(g, g[:7]), p, 0.5)
    )
    checks["one rank's scalar is wrong"] = raises(
        differs(TypeError, RanksDisagree), lambda: step(g, p, differs(True, 0.5)), "lr"
    )
    checks["new tensors at every call"] = _new_tensors(step)
    odd = np.zeros(401, np.uint8)[1:].view(np.float32)
    odd[:] = 1
    step(g, odd, 0.5)
    checks["misaligned"] = "ok" if (odd == 1 - 0.75).all() else str(odd)
    checks["aliases"] = raises(ProgramError, lambda: step(p, p, 0.5), "shares memory")
    checks["programs differ"] = raises(
        RanksDisagree,
        lambda: cc.compile(cc.library(sgd)[differs("fused", "one_shot")])(g, p, 0.5),
        "plan",
    )
    checks["missing tensor"] = raises(TypeError, lambda: step(g, lr=0.5), "p")
    checks["unknown scalar"] = raises(TypeError, lambda: step(g, p, mu=0.5), "lr")
    checks["bool scalar"] = raises(TypeError, lambda: step(g, p, True), "lr")
    checks["text scalar"] = raises(TypeError, lambda: step(g, p, "0.5"), "lr")
    checks["list for array"] = raises(TypeError, lambda: step([1.0], p, 0.5), "list")
    before = p.copy()
    step(g, p, 0.5)
    checks["the world still works"] = "ok" if (p == before - 0.75).all() else str(p)

    fixed = cc.Group("tp", 7)
    x = cc.tensor("x", cc.f32, (4,), cc.Local(), fixed)
    wrong = cc.program("wrong", inputs=[x], outputs=[cc.all_reduce(x)])
    checks["group size"] = raises(GroupError, lambda: cc.compile(wrong), "7")
    rooted = cc.tensor("rooted", cc.f32, (4,), cc.Rooted(0), dp)
    alone = cc.program("alone", inputs=[rooted], outputs=[rooted + 1])
    checks["rooted"] = raises(UnsupportedError, lambda: cc.compile(alone), "one rank")
    sliced = cc.compile(cc.library(adam, state=("m", "v"))["fused_sliced"])
    checks["piece shape"] = raises(
        ShapeError,
        lambda: sliced(g, p, g.copy(), g.copy(), 1.0, 0.9, 0.99, 1e-8, 1),
        "piece",
    )
    checks["results"] = _results(rank)
    return checks


def _new_tensors(step: Any) -> str:
    """Tensors come and go, as autograd's gradients do; none is kept beyond a call."""
    import gc
    import weakref

    seen: list[weakref.ref[Any]] = []
    for number in range(5):
        gradient = np.full(100, float(number), np.float32)
        parameter = np.ones(100, np.float32)
        seen.append(weakref.ref(gradient))
        step(gradient, parameter, 1.0)
        if not (parameter == 1 - number).all():
            return f"call {number}: {parameter}"
    del gradient
    gc.collect()
    alive = sum(ref() is not None for ref in seen)
    return "ok" if alive <= 1 else f"{alive} gradients are kept"


def _results(rank: int) -> str:
    """Fresh results at every call; earlier ones keep their values."""
    x = cc.tensor("x", cc.f32, (3, 5), cc.Local(), dp)
    total = cc.all_reduce(x, "max")
    step = cc.compile(cc.program("most", inputs=[x], outputs=[total, total * 2]))
    given = np.arange(15, dtype=np.float32).reshape(3, 5) * (1 if rank else -1)
    first, double = step(given)
    second, _ = step(given + 1)
    need = np.abs(given)
    right = (first == need).all() and (double == 2 * need).all()
    return "ok" if right and not (second == first).all() else f"{first} {second}"

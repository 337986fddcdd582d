"""How a compiled step is called, and what it refuses; every rank sees an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import coconet as cc
from coconet.backends.c import compile_plan
from coconet.backends.c.words import Knobs
from coconet.errors import (
    DtypeError,
    GroupError,
    ProgramError,
    RanksDisagree,
    ShapeError,
    UnsupportedError,
)
from coconet.interp import random_arguments
from coconet.lower import lower
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
    return checks | _outs(rank) | _rounds() | _inboxes() | _threads()


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


def _outs(rank: int) -> dict[str, str]:
    """Results written where the caller says: in place, staged, refused on all ranks."""
    x = cc.tensor("x", cc.f32, (4, 5), cc.Local(), dp)
    total = cc.all_reduce(x)
    step = cc.compile(cc.program("two", inputs=[x], outputs=[total, total * 2]))
    given = np.arange(20, dtype=np.float32).reshape(4, 5) * (rank + 1)
    need = np.arange(20, dtype=np.float32).reshape(4, 5) * 3
    wide = np.zeros((4, 10), np.float32)
    places = {
        "symmetric": (cc.empty((4, 5), cc.f32), cc.empty((4, 5), cc.f32)),
        "private": (np.empty((4, 5), np.float32), np.empty((4, 5), np.float32)),
        "strided": (wide[:, ::2], wide[:, 1::2]),
        "differ": (cc.empty((4, 5), cc.f32), np.empty((4, 5), np.float32))[
            :: 1 - 2 * rank
        ],
    }
    checks: dict[str, str] = {}
    for name, out in places.items():
        for call in (
            lambda: step(given, out=out),  # noqa: B023
            step.bind(x=given, out=list(out)),
        ):
            out[0][:] = out[1][:] = -1
            first, second = call()
            is_right = (out[0] == need).all() and (out[1] == 2 * need).all()
            is_same = first is out[0] and second is out[1]
            checks[f"out {name}"] = "ok" if is_right and is_same else str(out)
    given[:] += 1
    bound = step.bind(x=given, out=places["symmetric"])
    staged, need = bound.staged_bytes, given.nbytes
    checks["out stages no more"] = "ok" if staged == need else f"{staged} bytes"
    checks["out allocates nothing"] = _without_allocation(bound)

    a, b = places["private"]
    frozen = b.copy()
    frozen.flags.writeable = False
    refusals: dict[str, tuple[type[Exception], Any, str]] = {
        "one for two": (TypeError, a, "out has 1"),
        "dtype": (DtypeError, (a, b.astype(np.float64)), "f32"),
        "shape": (ShapeError, (a, b[1:]), "[4, 5]"),
        "read-only": (ProgramError, (a, frozen), "read-only"),
        "an input": (ProgramError, (a, given), "shares memory"),
        "twice": (ProgramError, (a, a), "shares memory"),
        "a number": (TypeError, (a, 1.0), "float"),
    }
    for name, (kind, out, word) in refusals.items():
        checks[f"out {name}"] = raises(kind, lambda: step(given, out=out), word)  # noqa: B023
        checks[f"out {name} on one rank"] = raises(
            kind if rank == 0 else RanksDisagree,
            lambda: step(given, out=(a, b) if rank else out),  # noqa: B023
        )
    none = cc.compile(cc.library(sgd)["fused"])
    checks["out of nothing"] = raises(
        TypeError, lambda: none(a[0], b[0], 0.5, out=a), "results are none"
    )
    taken = cc.tensor("out", cc.f32, (4,), cc.Local(), dp)
    program = cc.program("taken", inputs=[taken], outputs=[cc.all_reduce(taken)])
    checks["out as a name"] = raises(UnsupportedError, lambda: cc.compile(program))
    return checks


def _without_allocation(bound: Any) -> str:
    """Call while the pool of symmetric memory gives none."""
    pool = cc.init().pool

    def refuse(nbytes: int) -> None:
        raise MemoryError(nbytes)

    pool.allocate = refuse
    try:
        bound(), bound()
    finally:
        del pool.allocate
    return "ok"


def _rounds() -> dict[str, str]:
    """Private memory is handed over in rounds, whatever other ranks have; same bits."""
    world, size = cc.init(), 30_011
    checks: dict[str, str] = {}
    for program, name in ((sgd, "one_shot"), (adam, "fused"), (adam, "as_written")):
        result = cc.library(program)[name].result
        step = compile_plan(lower(result, world.size), world)
        arguments = random_arguments(result, world.size, {"N": size}, 7)
        scalars = {v.name: arguments[v.name] for v in result.scalars}
        seen: list[list[bytes]] = []
        for private in ("", "g", "gpmv", "rank 0", "rank 1"):
            for knobs in (
                Knobs(round_elements=1000),
                Knobs(round_elements=4096, threads=3, stream_bytes=0),
            ):
                tensors = {
                    v.name: _memory(arguments[v.name][world.rank], v.name, private)
                    for v in result.tensors
                }
                bound = step.with_knobs(knobs).bind(sizes={"N": size}, **tensors)
                for _ in range(3):
                    bound(**scalars)
                seen.append([tensor.tobytes() for tensor in tensors.values()])
        is_equal = all(bits == seen[0] for bits in seen)
        checks[f"rounds, {name}"] = "ok" if is_equal else "bits differ"
    return checks | _rounds_refused(world)


def _inboxes() -> dict[str, str]:
    """Small arguments go by inboxes: the same bits if ranks run ahead of each other."""
    world = cc.init()
    result = cc.library(sgd)["one_shot"].result
    step = compile_plan(lower(result, world.size), world)
    checks: dict[str, str] = {}
    for size in (0, 1, 65, 4099, 16_384, 16_385):
        seen: list[bytes] = []
        for private in ("", "gp", "rank 1"):
            for knobs in (Knobs(), Knobs(inbox_bytes=0), Knobs(threads=3)):
                g, p = (
                    _memory(np.full(size, x, np.float32), name, private)
                    for name, x in (("g", 1 + world.rank), ("p", 0))
                )
                bound = step.with_knobs(knobs).bind(g=g, p=p)
                rng = np.random.default_rng(world.rank + size)
                for turn in range(60):
                    bound(0.5)
                    g[:] = turn + world.rank  # at once, whatever the peer does
                    time.sleep(rng.choice((0, 0, 1e-5, 1e-3)))
                seen.append(p.tobytes())
                if size == 65 and knobs == Knobs():
                    checks[f"no copies, {private}"] = _staged(bound, 0)
        is_equal = all(bits == seen[0] for bits in seen)
        checks[f"inboxes, {size}"] = "ok" if is_equal else "bits differ"
    g, p = np.ones(100, np.float32), np.ones(100, np.float32)
    knobs = Knobs(inbox_bytes=400 * world.rank)
    mine = step.with_knobs(knobs).bind(g=g, p=p)
    checks["inboxes differ"] = raises(RanksDisagree, lambda: mine(0.5), "by inboxes")
    return checks


def _staged(bound: Any, need: int) -> str:
    got = bound.staged_bytes
    return "ok" if got == need else f"{got} bytes are copied"


def _memory(array: Any, name: str, private: str) -> Any:
    """A copy, private if its name or rank says so."""
    rank = cc.init().rank
    if name in private or private == f"rank {rank}":
        return array.copy()
    made = cc.init().pool.empty(array.shape, array.dtype)
    made[:] = array
    return made


def _rounds_refused(world: Any) -> dict[str, str]:
    """What is copied, and ranks with rounds of different lengths."""
    step = cc.compile(cc.library(sgd)["fused"])
    g, p = np.ones(10_000, np.float32), np.ones(10_000, np.float32)
    mine = step.with_knobs(Knobs(round_elements=1000 + world.rank)).bind(g=g, p=p)
    refused = raises(RanksDisagree, lambda: mine(0.5), "rounds of 1001 elements")
    equal = step.with_knobs(Knobs(round_elements=1000)).bind(g=g, p=p)
    whole = step.bind(g=g, p=p)
    equal(0.5)
    copied = [equal.staged_bytes, whole.staged_bytes]
    others = 10_000 - (5056, 4944)[world.rank]
    return {
        "rounds differ": refused,
        "after that": "ok" if (p == 0.5).all() else str(p),
        "copied": "ok" if copied == [8 * others, 12 * 10_000] else str(copied),
    }


def _threads() -> dict[str, str]:
    """The same bits with any number of threads, also with more than elements."""
    world = cc.init()
    checks: dict[str, str] = {}
    for program, name in ((sgd, "one_shot"), (adam, "fused"), (adam, "as_written")):
        result = cc.library(program)[name].result
        plan = lower(result, world.size)
        for size in (0, 1, 65, 4099, 200_003):
            arguments = random_arguments(result, world.size, {"N": size}, size)
            seen: list[list[bytes]] = []
            for threads in (1, 3, 8):
                step = compile_plan(plan, world, knobs=Knobs(threads=threads))
                tensors = {
                    v.name: arguments[v.name][world.rank].copy() for v in result.tensors
                }
                bound = step.bind(sizes={"N": size}, **tensors)
                for _ in range(3):
                    bound(**{v.name: arguments[v.name] for v in result.scalars})
                seen.append([tensor.tobytes() for tensor in tensors.values()])
            is_equal = seen[0] == seen[1] == seen[2]
            checks[f"threads, {name}, {size}"] = "ok" if is_equal else "bits differ"
    return checks

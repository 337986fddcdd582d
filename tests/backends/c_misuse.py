"""Calls that go wrong on one rank or in one thread must not go wrong elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import coconet as cc
from coconet.errors import ConcurrentUse, RanksDisagree, SharedMemoryFull
from coconet.runtime.library import Report, library
from coconet.runtime.world import World
from coconet.workloads.optimizers import adam, sgd

dp = cc.Group("dp")


def scaled(name: str = "scaled") -> Any:
    """Compile a times a sum over ranks."""
    (N,) = cc.dims("N")
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), dp)
    total = cc.all_reduce(g) * cc.scalar("a")
    return cc.compile(cc.program(name, inputs=[g], outputs=[total]))


def error_of(call: Callable[[], Any]) -> str:
    """Return what a call raises, by the name of its class."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def check_failures_of_one_rank() -> dict[str, list[str]]:
    """Run on one rank; rank 0's own checks fail, in ways that no check foresees."""
    world = cc.init(timeout_s=20)
    found: dict[str, list[str]] = {}

    def both(name: str, call: Callable[[bool], Any]) -> None:
        wrong = error_of(lambda: call(world.rank == 0))
        found[name] = [wrong, error_of(lambda: call(False))]

    g, p = np.ones(100, np.float32), np.ones(100, np.float32)
    step = cc.compile(cc.library(sgd)["fused"])
    both("no number", lambda is_bad: step(g, p, "x" if is_bad else 0.5))
    both("too large", lambda is_bad: step(g, p, 10**400 if is_bad else 0.5))
    steps = cc.compile(cc.library(adam)["one_shot"])
    m, v = g.copy(), g.copy()
    both(
        "no integer",
        lambda is_bad: steps(g, p, m, v, 1, 0.9, 0.99, 1, np.nan if is_bad else 1),
    )
    total = scaled()

    large = np.ones(1 << 21, np.float32)

    def reduce_with_little_memory(is_bad: bool) -> None:
        reserve = world.pool.reserve
        world.pool.reserve = world.pool.nbytes if is_bad else reserve
        try:
            total(large, 1.0)
        finally:
            world.pool.reserve = reserve

    both("no memory", reduce_with_little_memory)
    nan = float("nan")
    other = np.uint64(0xFFF8000000000001).view(np.float64).item()
    found["NaNs"] = [error_of(lambda: step(g, p, nan if world.rank else other))]
    return found


def _calls(world: World) -> int:
    report = Report()
    library().cc_world_report(world.address, world.rank, report)
    return report.calls


def check_threads() -> dict[str, list[Any]]:
    """Run on one of two ranks; a second thread of rank 0 calls during its call."""
    world = cc.init(timeout_s=20)
    turn = world.pool.empty((1,), np.int64)  # at the same offset on both ranks
    offset = turn.ctypes.data - world.pool.base
    turn[:] = 0
    step, x = scaled(), np.ones(1000, np.float32)
    bound = step.bind(g=x)
    bound(a=1.0), step(x, 1.0)
    found: dict[str, list[Any]] = {}
    cases = {
        "bound": lambda a: bound(a=a),
        "step": lambda a: step(x if a == 3 else 5 * x, a),
    }
    for number, (name, call) in enumerate(cases.items(), 1):
        results: list[Any] = []
        if world.rank == 0:
            calls = _calls(world)
            thread = threading.Thread(target=lambda: results.append(call(3.0)))  # noqa: B023
            thread.start()
            while _calls(world) == calls:
                pass
            found[name] = [error_of(lambda: call(100.0)).partition(":")[0]]  # noqa: B023
            turn[:] = number
            thread.join()
        else:
            seen = np.zeros(1, np.int64)
            while seen[0] < number:
                world.read(0, offset, seen)
            found[name] = [ConcurrentUse.__name__]
            results.append(call(3.0))
        found[name].append(np.unique(results[0]).tolist())
    return found


def check_tensors_that_move() -> list[float]:
    """Run on one rank; a tensor gets other memory, as `module.to` gives parameters."""
    import torch

    cc.init(timeout_s=20)
    step = cc.compile(cc.library(sgd)["fused"])
    g, p = torch.ones(1000), torch.ones(1000)
    step(g, p, 0.5)
    p.data = torch.full((1000,), 7.0)
    step(g, p, 0.5)
    seen = [*torch.unique(p).tolist()]
    p.data = torch.arange(2000.0)[::2]
    step(g, p, 0.5)
    return [*seen, p[0].item(), p[999].item()]


def check_names() -> list[float]:
    """Run on one rank; a program may have any name that a function has."""
    cc.init()
    x = np.ones(3, np.float32)
    names = ("_private", "\N{LATIN SMALL LETTER E WITH ACUTE}tape", "long" * 30, "int")
    return [float(scaled(name)(x, 2.0)[0]) for name in names]


EXPECTED = {
    "no number": TypeError,
    "too large": OverflowError,
    "no integer": ValueError,
    "no memory": SharedMemoryFull,
}


def wrong_failures(found: dict[str, list[str]], rank: int) -> list[str]:
    """Return which of `check_failures_of_one_rank` are not as they should be."""
    wrong: list[str] = []
    for name, kind in EXPECTED.items():
        need = RanksDisagree if rank else kind
        first, then = found[name]
        if not first.startswith(need.__name__) or then != "none":
            wrong.append(f"{name}: {first}; {then}")
    return wrong

"""Tunings on the ranks of one world; each case returns plain data for the test."""

from __future__ import annotations

import dataclasses
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import coconet as cc
from coconet.errors import CoconetError, CompileError
from coconet.runtime.cache import write_note
from coconet.settings import settings
from coconet.tuning import measure
from coconet.tuning.cache import note_name
from coconet.tuning.contest import Contest
from coconet.tuning.progress import Progress
from coconet.tuning.request import Request
from coconet.tuning.tune import Tuned, tune
from coconet.workloads.optimizers import adam, sgd

N = 3000
SILENT = Progress(None)


def run(program: cc.Program = sgd, **options: Any) -> Tuned:
    given = {"fresh": True, "progress": SILENT, "time_box_s": 0.3} | options
    asked = {n: given.pop(n) for n in ("time_box_s", "slice_state") if n in given}
    request = Request.of(program, sizes={"N": N}, **asked)
    return tune(request, cc.init(), **given)


def everything() -> dict[str, Any]:
    """Run on one rank; the results of the cases by name."""
    cases = [
        *(divergent_clocks, remembered, corrupt, computes, state_in_pieces),
        *(different_requests, forced_mismatch, late, interrupted, one_rank_fails),
        freed,
    ]
    return {case.__name__: case() for case in cases}


def odd_clock(seed: int) -> Callable[[], float]:
    """A clock whose readings are random steps apart: everything seems noise."""
    rng, now_s = random.Random(seed), 0.0

    def read() -> float:
        nonlocal now_s
        now_s += rng.choice((1e-6, 1e-5, 1e-4)) * rng.random()
        return now_s

    return read


def divergent_clocks() -> list[str]:
    """Ranks whose clocks prefer different winners agree on one all the same."""
    rank = cc.init().rank
    return [run(clock=odd_clock(100 * seed + rank)).to_json() for seed in range(3)]


def remembered() -> dict[str, Any]:
    """The next tuning measures nothing and says the same."""
    first = run()

    def broken() -> float:
        raise AssertionError("the clock was read")

    again = run(fresh=False, clock=broken)
    return {"same": first.to_json() == again.to_json()}


def corrupt() -> dict[str, Any]:
    """What is kept and makes no sense is replaced."""
    world = cc.init()
    request = Request.of(sgd, sizes={"N": N})
    if world.rank == 0:
        write_note(note_name(request, world.size), b'{"schedule": 3}')
    tuned = run(fresh=False, time_box_s=0.2)
    if world.rank:  # rank 0 alone reads and writes
        return {"kept": True}
    path = (settings().cache_dir or Path()) / note_name(request, world.size)
    return {"kept": path.read_text() == tuned.to_json()}


def computes() -> dict[str, Any]:
    """A tuned step has the bits of the program as written."""
    world, tuned = cc.init(), run(adam)
    found = [_adam(step) for step in (tuned, cc.compile(adam, group=world))]
    return {
        "equal": [bool(np.array_equal(a, b)) for a, b in zip(*found, strict=True)],
        "bound": tuned.bind(**_tensors()).staged_bytes,
        "repr": repr(tuned),
    }


def _tensors() -> dict[str, Any]:
    world = cc.init()
    tensors = {name: cc.empty((N,), cc.f32, world) for name in "gpmv"}
    for number, array in enumerate(tensors.values()):
        array[:] = np.arange(N) % 7 + number
    tensors["g"] += world.rank
    return tensors


def _adam(step: Any) -> list[Any]:
    tensors = _tensors()
    step(**tensors, lr=0.1, beta1=0.9, beta2=0.99, eps=1e-8, t=3)
    return [tensors[name].copy() for name in "pmv"]


def state_in_pieces() -> list[str]:
    result = run(adam, slice_state=("m", "v")).schedule.result
    return [str(result[name].type.layout) for name in "pmv"]


def different_requests() -> dict[str, Any]:
    """Ranks that ask for different things all hear of it, and can go on."""
    rank = cc.init().rank
    found = _error(lambda: run(time_box_s=1.0 + rank))
    return found | {"after": run(time_box_s=0.1).report.program}


def forced_mismatch() -> dict[str, Any]:
    """A rank that decides otherwise ends the tuning on all, and hangs none."""
    with _replaced(Contest, "decide", _contrary):
        return _error(lambda: run(time_box_s=0.1))


def _contrary(self: Contest, was: Callable[[Contest], Any]) -> Any:
    decision = was(self)
    knobs = dataclasses.replace(decision.knobs, block_elements=4 + cc.init().rank)
    return dataclasses.replace(decision, knobs=knobs)


def late() -> dict[str, Any]:
    report = run(adam, time_box_s=1e-3).report
    timed = [row for row in report.rows if row.median_s is not None]
    boxes = (1e-3, 100.0, 1e-3)
    return {
        "late": report.was_late,
        "turns": [row.turns for row in timed],
        "remembered": [
            run(adam, fresh=False, time_box_s=box).is_remembered for box in boxes
        ],
    }


def interrupted() -> dict[str, Any]:
    """Ctrl-C on one rank ends the tuning on all; a handler of before is back."""
    before = signal.getsignal(signal.SIGINT)
    readings = 0

    def clock() -> float:
        nonlocal readings
        readings += 1
        if readings == 12 and cc.init().rank == cc.init().size - 1:
            signal.raise_signal(signal.SIGINT)
        return readings * 1e-4

    tuned = run(adam, clock=clock)
    turns = sum(row.turns for row in tuned.report.rows)
    return {
        "interrupted": tuned.report.was_interrupted,
        "few": turns < 6,
        "json": tuned.to_json(),
        "restored": signal.getsignal(signal.SIGINT) is before,
    }


def one_rank_fails() -> dict[str, Any]:
    """A candidate that one rank cannot load is skipped by all, for its reason."""
    calls = 0

    def failing(plan: Any, world: Any, was: Callable[..., Any], **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 and world.rank == world.size - 1:
            raise CompileError("no luck today")
        return was(plan, world, **options)

    with _replaced(measure, "compile_plan", failing):
        rows = run(time_box_s=0.1).report.rows
    return {"verdicts": [row.verdict for row in rows]}


def freed() -> bool:
    """Tuning again keeps nothing: what lies last differs, but not by a tensor each."""
    pool, times = cc.init().pool, 12
    run(adam, time_box_s=0.1)
    before = pool.nbytes
    for _ in range(times):
        run(adam, time_box_s=0.1)
    return pool.nbytes - before < times * 4 * N


def _error(act: Callable[[], object]) -> dict[str, Any]:
    try:
        act()
    except CoconetError as error:
        return {"kind": type(error).__name__, "what": error.what, "got": str(error.got)}
    return {"kind": "none"}


@contextmanager
def _replaced(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Put a function in place of another, which it gets as `was`."""
    was = getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        return function(*args, was=was, **options)

    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, was)

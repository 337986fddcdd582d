"""What one call costs from Python at 2^10 elements, and what compiling it costs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

import coconet as cc
from coconet.backends.c import compile_plan, print_plan
from coconet.bench.engines.task import BETAS, EPS, LR
from coconet.bench.machine import machine, versions
from coconet.bench.record import Record, record, write_json
from coconet.ir import Domain
from coconet.lower import lower
from coconet.plan.verify import verify_plan
from coconet.runtime.build import build
from coconet.runtime.launch import spawn
from coconet.runtime.library import header_text
from coconet.workloads.optimizers import ADAM_STATE, adam

__all__ = ["run_call"]

_ELEMENTS = 1 << 10
_CALLS = 5000
_COMPILATIONS = 7


def run_call(ranks: int, json_path: Path | None = None) -> list[Record]:
    """Time bound and plain calls one by one, and compilations; print, write the JSON.

    Of each call the slowest rank's time counts; compilations are cold (an empty cache)
    and warm (a new process that finds the kernel there).
    """
    per_rank = [np.array(times) for times in spawn(_call_times, ranks)]
    samples = dict(
        zip(("bound call", "plain call"), np.max(per_rank, axis=0), strict=True)
    )
    cold, warm = _compile_times()
    records = [
        record(
            samples_s,
            workload="call",
            elements=_ELEMENTS,
            dtype="f32",
            ranks=ranks,
            name=name,
            library=f"coconet {version('coconet')}",
            schedule="fused_sliced",
            bytes_per_rank=0,
        )
        for name, samples_s in {
            **samples,
            "compile cold": cold,
            "compile warm": warm,
        }.items()
    ]
    for entry in records:
        spread = f"({entry.p10_ms:.4g} .. {entry.p90_ms:.4g})"
        print(f"{entry.name:>13}  {entry.median_ms:8.4g} ms  {spread}")
    if json_path is not None:
        write_json(json_path, machine=machine(), versions=versions(), records=records)
    return records


def _call_times() -> list[list[float]]:
    """Run on one rank; returns seconds of each bound call, and of each plain call."""
    world = cc.init()
    step = compile_plan(lower(_scheduled(), world.size), world)
    piece = Domain.of((_ELEMENTS,), cc.FLAT).piece_numel(world.rank, world.size)
    g, p = (cc.zeros((_ELEMENTS,), cc.f32, world) for _ in range(2))
    m, v = (cc.zeros((piece,), cc.f32, world) for _ in range(2))
    scalars = {"lr": LR, "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS}
    bound = step.bind(sizes={"N": _ELEMENTS}, g=g, p=p, m=m, v=v)
    plain = partial(step, g, p, m, v)
    found: list[list[float]] = []
    for call in (bound, plain):
        times: list[float] = []
        for t in range(_CALLS):
            begin = time.perf_counter_ns()
            call(**scalars, t=t + 1)
            times.append((time.perf_counter_ns() - begin) * 1e-9)
        found.append(times)
    return found


def _scheduled() -> cc.Program:
    return cc.library(adam, state=ADAM_STATE)["fused_sliced"].result


def _compile_times() -> tuple[list[float], list[float]]:
    cold: list[float] = []
    warm: list[float] = []
    for _ in range(_COMPILATIONS):
        with tempfile.TemporaryDirectory(prefix="coconet-bench-") as folder:
            command = ("env", f"COCONET_CACHE={folder}", sys.executable, "-m", __name__)
            for samples in (cold, warm):
                done = subprocess.run(command, check=True, capture_output=True)
                samples.append(json.loads(done.stdout))
    return cold, warm


def _compile_time() -> float:
    """Return the seconds from a plan to its shared object: the proof, the text, the C
    compiler or the cache."""
    plan = lower(_scheduled(), 2)
    begin = time.perf_counter()
    verify_plan(plan)
    build("adam", {"kernel.c": print_plan(plan), "runtime.h": header_text()})
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(_compile_time()))

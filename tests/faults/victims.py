"""What the ranks of the fault tests run: a compiled step, over and over."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

import coconet as cc
from coconet.backends.c import compile_plan
from coconet.backends.c.words import Knobs
from coconet.errors import CoconetError
from coconet.lower import lower
from coconet.runtime.exchange import Exchange
from coconet.workloads.optimizers import adam


def step_until(victim: int, what: str, threads: int = 1, chunk: int = 1 << 14) -> str:
    """Step for ever; the victim dies, stops or leaves after 100 steps.

    The private tensors go in rounds of `chunk` elements.
    """
    world = cc.init(timeout_s=2.0)
    plan = lower(cc.library(adam)["fused"].result, world.size)
    step = compile_plan(plan, world, knobs=Knobs(threads=threads, round_elements=chunk))
    g, p, m, v = (np.ones(5000, np.float32) for _ in range(4))
    bound = step.bind(g=g, p=p, m=m, v=v)
    for t in range(1, 100_000):
        bound(lr=1e-3, beta1=0.9, beta2=0.99, eps=1e-8, t=t)
        if world.rank == victim and t == 100:
            _suffer(what)
    return "finished"


def _suffer(what: str) -> None:
    match what:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill later":
            kill = os.kill, (os.getpid(), signal.SIGKILL)
            threading.Timer(0.1, *kill).start()
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise RuntimeError("a bad batch on this rank")
        case "sleep":
            time.sleep(60)


def call_again_after_a_fault() -> dict[str, object]:
    """Rank 1 stops in a round; rank 0 gives up, calls again, and lets rank 1 go on."""
    world = cc.init(timeout_s=1.0)
    pids = Exchange(world).all_gather(str(os.getpid()).encode())
    plan = lower(cc.library(adam)["fused"].result, world.size)
    step = compile_plan(plan, world, knobs=Knobs(round_elements=1 << 20))
    private = {name: np.ones(1 << 23, np.float32) for name in "gpmv"}
    shared = {name: cc.zeros((1 << 23,), cc.f32) for name in "gpmv"}
    bystanders = [np.ones(4 << 20, np.float32) for _ in range(4)]
    scalars = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "t": 1}
    raised: list[str] = []
    told: list[object] = []
    if world.rank == 1:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGSTOP)).start()
    try:
        while True:
            step(**private, **scalars)
    except CoconetError as error:
        raised.append(type(error).__name__)
    if world.rank == 0:
        (bound,) = step._bound.values()
        told = list(bound._call._table)  # rank 1 may read it still
        try:
            step(**shared, **scalars)
        except CoconetError as error:
            raised.append(type(error).__name__)
        told = [told == list(bound._call._table)]
        os.kill(int(pids[1]), signal.SIGCONT)
        time.sleep(0.5)
    changed = sum(int((array != 1).sum()) for array in bystanders)
    changed += sum(int(array.any()) for array in shared.values())
    return {"raised": raised, "changed": changed, "told": told}


def interrupted_in_rounds() -> list[str]:
    """Rank 0 gets Ctrl-C in a call of very many short rounds, and calls again."""
    world = cc.init(timeout_s=20.0)
    plan = lower(cc.library(adam)["fused"].result, world.size)
    step = compile_plan(plan, world, knobs=Knobs(round_elements=1))
    tensors = {name: np.ones(1 << 24, np.float32) for name in "gpmv"}
    scalars = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "t": 1}
    if world.rank == 0:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    raised: list[str] = []
    for _ in range(2):
        try:
            step(**tensors, **scalars)
        except (KeyboardInterrupt, CoconetError) as error:
            raised.append(type(error).__name__)
    return raised

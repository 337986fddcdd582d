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
from coconet.lower import lower
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

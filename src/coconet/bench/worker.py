"""One rank of one engine: takes orders as JSON lines from the driver, one at a time.

    python -m coconet.bench.worker ENGINE ORDERS REPLIES

ORDERS and REPLIES are descriptors of pipes.  The first line says who this worker is;
each line gets one line in reply.  Between orders the worker sleeps in read(), so that
it costs the other engines nothing.
"""

from __future__ import annotations

import json
import os
import sys
import timeit
from typing import Any, TextIO

import numpy as np

from coconet.bench.engines.engine import Place, Ready
from coconet.bench.engines.table import open_engine
from coconet.bench.engines.task import Task
from coconet.bench.start_line import StartLine

__all__ = ["SAMPLED", "main"]

SAMPLED = 61


class Worker:
    """The orders a driver may give, one method each."""

    def __init__(self, name: str, who: dict[str, Any]) -> None:
        """Pin this process, then open the engine: its threads are pinned as well."""
        os.sched_setaffinity(0, {who["cpu"]})
        task = Task(who["optimizer"], who["dtype"])
        place = Place(who["rank"], who["size"], who["folder"], task)
        self.line = StartLine(who["start_fd"], rank=place.rank, size=place.size)
        self.engine = open_engine(name, place)
        self.ready: Ready | None = None

    def prepare(self, elements: int) -> dict[str, Any]:
        """Make one size ready; the one before is dropped first."""
        self.ready = None
        self.ready = self.engine.prepare(elements)
        return {"schedule": self.ready.schedule}

    def check(self) -> dict[str, Any]:
        """Take three steps with different gradients and sample the parameter."""
        ready = self._ready()
        for scale in (1.0, -0.5, 4.0):  # exact in every dtype
            if ready.gradient is not None:
                grad = ready.gradient
                np.multiply(grad, grad.dtype.type(scale), out=grad)
            self.line.wait()
            ready.step()
        if ready.parameter is None:
            return {"sample": []}
        spots = np.linspace(0, ready.parameter.size - 1, SAMPLED).astype(np.int64)
        sample: list[float] = ready.parameter[spots].astype(np.float32).tolist()
        mean = float(np.mean(np.abs(ready.parameter), dtype=np.float64))
        return {"sample": [*sample, mean]}

    def run(self, iterations: int) -> dict[str, Any]:
        """Time so many steps; one more before warms what other engines cooled."""
        step = self._ready().step
        step()
        spent_s = timeit.timeit(step, setup=self.line.wait, number=iterations)
        return {"step_s": spent_s / iterations}

    def release(self) -> dict[str, Any]:
        """Drop the current size and its memory."""
        self.ready = None
        return {}

    def _ready(self) -> Ready:
        if self.ready is None:
            raise RuntimeError("the driver must prepare a size first")
        return self.ready


def main(name: str, orders: TextIO, replies: TextIO) -> None:
    """Serve the driver until it closes the pipe."""
    worker = Worker(name, json.loads(orders.readline()))
    verbs = {
        "prepare": worker.prepare,
        "check": worker.check,
        "run": worker.run,
        "release": worker.release,
    }
    _reply(replies, {"library": worker.engine.library, "pid": os.getpid()})
    for line in orders:
        order = json.loads(line)
        _reply(replies, verbs[order.pop("do")](**order))
    worker.release()
    worker.engine.close()


def _reply(replies: TextIO, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


if __name__ == "__main__":
    os.dup2(2, 1)  # what a library prints is kept beside its errors
    engine, orders, replies = sys.argv[1:]
    main(engine, os.fdopen(int(orders)), os.fdopen(int(replies), "w"))

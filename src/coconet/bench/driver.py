"""Worker processes for every engine, all alive at once, and the turns they take.

Times of different engines are comparable only when measured side by side: machines
drift.  So each turn gives every engine one timed stretch, in rotating order, while the
others sleep.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coconet.bench.engines.table import ENGINES
from coconet.bench.engines.task import Task
from coconet.bench.launch import Worker, launch_each, launch_together
from coconet.bench.start_line import START_BYTES
from coconet.errors import CollectiveTimeout, PeerFailed

__all__ = ["Crew", "open_crews", "take_turns"]

TURNS, LEAST_TURNS = 21, 5
_STRETCH_S = 5e-3
_MOST_ITERATIONS = 10_000
_REPLY_S = 300.0
_LEAVE_S = 5.0
_STDERR_LINES = 15
# Every rank is one thread on one core; the baselines talk over loopback.
_ENVIRONMENT = (
    *("OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "COCONET_THREADS=1"),
    "GLOO_SOCKET_IFNAME=lo",
)


class Crew:
    """The workers of one engine, one per rank, each pinned to a core of its own.

    With more ranks than cores the cores are dealt out again from the first.

    Attributes
      name     the engine's
      library  what it runs on, in that library's own words, once it is ready
      pids     of the workers by rank, once they are ready
    """

    def __init__(self, name: str, ranks: int, folder: Path, task: Task) -> None:
        """Keep what the workers need; `start` starts them."""
        self.name = name
        self.library = ""
        self.pids: list[int] = []
        self._ranks = ranks
        self._folder = folder
        self._task = task
        self._workers: list[Worker] = []

    def start(self) -> None:
        """Start the workers, without waiting for them."""
        self._folder.mkdir()
        commands = self._commands()
        vendor = ENGINES[self.name].vendor
        start_fd = os.memfd_create("coconet-bench")
        try:
            os.ftruncate(start_fd, START_BYTES * self._ranks)
            self._workers = (
                launch_together(vendor.launcher, commands, self._folder, start_fd)
                if vendor
                else launch_each(commands, self._folder, start_fd)
            )
        finally:
            os.close(start_fd)
        cores = sorted(os.sched_getaffinity(0))
        for rank in range(self._ranks):
            who = {
                "rank": rank,
                "size": self._ranks,
                "cpu": cores[rank % len(cores)],
                "folder": str(self._folder),
                "start_fd": start_fd,
                **asdict(self._task),
            }
            self._send(rank, who)

    def ready(self) -> None:
        """Wait until every worker has opened its engine.

        Raises  ResourceError  the MPI library is not the one the engine is named after
        """
        replies = self._replies("start")
        self.pids = [reply["pid"] for reply in replies]
        self.library = ", ".join(sorted({reply["library"] for reply in replies}))
        vendor = ENGINES[self.name].vendor
        if vendor:
            vendor.check(self.library)

    def ask(self, do: str, **order: object) -> list[dict[str, Any]]:
        """Give every rank one order and return their replies by rank.

        Blocks  at most 5 minutes
        Raises  PeerFailed         a worker died or raised; quotes its stderr
                CollectiveTimeout  a worker does not answer
        """
        for rank in range(self._ranks):
            self._send(rank, {"do": do, **order})
        return self._replies(do)

    def step_s(self, iterations: int) -> float:
        """Time so many steps; the slowest rank's seconds per step count."""
        return max(reply["step_s"] for reply in self.ask("run", iterations=iterations))

    def close(self) -> None:
        """Let the workers leave; end those that do not."""
        for worker in self._workers:
            try:
                worker.orders.close()
            except BrokenPipeError:  # an order that a dead worker never read
                continue
        deadline = time.monotonic() + _LEAVE_S
        for worker in self._workers:
            try:
                worker.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.replies.close()

    def _commands(self) -> list[list[str]]:
        run = secrets.token_hex(8)
        engine = ENGINES[self.name].environment
        python = (sys.executable, "-m", "coconet.bench.worker", self.name)
        commands: list[list[str]] = []
        for rank in range(self._ranks):
            place = (
                f"COCONET_RANK={rank}",
                f"COCONET_SIZE={self._ranks}",
                f"COCONET_RUN={run}",
            )
            commands.append(["env", *_ENVIRONMENT, *engine, *place, *python])
        return commands

    def _send(self, rank: int, order: dict[str, Any]) -> None:
        pipe = self._workers[rank].orders
        try:
            pipe.write(json.dumps(order).encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            raise self._failure(rank, str(order.get("do", "start"))) from None

    def _replies(self, do: str) -> list[dict[str, Any]]:
        replies: dict[int, dict[str, Any]] = {}
        deadline = time.monotonic() + _REPLY_S
        with selectors.DefaultSelector() as selector:
            for rank, worker in enumerate(self._workers):
                selector.register(worker.replies, selectors.EVENT_READ, rank)
            while len(replies) < self._ranks:
                events = selector.select(deadline - time.monotonic())
                if not events:
                    late = tuple(sorted(set(range(self._ranks)) - set(replies)))
                    raise CollectiveTimeout(
                        f"{self.name}: ranks {late} do not finish {do!r}",
                        got=f"no reply within {_REPLY_S:.0f} s",
                        ranks=late,
                    )
                for key, _ in events:
                    rank: int = key.data
                    line = self._workers[rank].replies.readline()
                    if not line.endswith(b"\n"):
                        raise self._failure(rank, do)
                    replies[rank] = json.loads(line)
                    selector.unregister(key.fileobj)
        return [replies[rank] for rank in range(self._ranks)]

    def _failure(self, rank: int, do: str) -> PeerFailed:
        """Blame the rank, or all that one launcher ended together with it."""
        failed = self._workers[rank]
        try:
            code = failed.process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            code = None
        text = failed.stderr.read_text(errors="replace").splitlines()
        last = "".join(f"\n    {line}" for line in text[-_STDERR_LINES:])
        ranks = tuple(
            rank
            for rank, worker in enumerate(self._workers)
            if worker.process is failed.process
        )
        who = f"the worker of rank {rank}" if len(ranks) == 1 else "a worker"
        return PeerFailed(
            f"{self.name}: {who} failed in {do!r}",
            got=f"exit code {code}{last}",
            ranks=ranks,
        )


@contextmanager
def open_crews(names: Sequence[str], ranks: int, task: Task) -> Generator[list[Crew]]:
    """Start the workers of all engines at once; on leaving, none of them is left."""
    with ExitStack() as stack:
        private = tempfile.TemporaryDirectory(prefix="coconet-bench-")
        folder = stack.enter_context(private)
        crews: list[Crew] = []
        for number, name in enumerate(names):
            crew = Crew(name, ranks, Path(folder) / str(number), task)
            stack.callback(crew.close)
            crew.start()
            crews.append(crew)
        for crew in crews:
            crew.ready()
        yield crews


def take_turns(crews: Sequence[Crew], *, time_box_s: float) -> dict[str, list[float]]:
    """Time the prepared size on every crew and return seconds per step, by name.

    Takes 21 turns, or as many as begin within the time box, but at least 5.
    """
    iterations = {crew.name: _iterations(crew) for crew in crews}
    samples: dict[str, list[float]] = {crew.name: [] for crew in crews}
    begin = time.monotonic()
    for turn in range(TURNS):
        if turn >= LEAST_TURNS and time.monotonic() - begin > time_box_s:
            break
        first = turn % len(crews)
        for crew in (*crews[first:], *crews[:first]):
            samples[crew.name].append(crew.step_s(iterations[crew.name]))
    return samples


def _iterations(crew: Crew) -> int:
    """Return how many steps fill one timed stretch; the second guess is warm."""
    iterations = 1
    for _ in range(2):
        step_s = crew.step_s(iterations)
        iterations = min(max(1, round(_STRETCH_S / step_s)), _MOST_ITERATIONS)
    return iterations

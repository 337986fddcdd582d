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
from pathlib import Path
from typing import IO, Any

from coconet.bench.engines.table import ENGINES
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
_ENVIRONMENT = ("OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo")


class Crew:
    """The workers of one engine, one per rank, each pinned to a core of its own.

    With more ranks than cores the cores are dealt out again from the first.
    """

    def __init__(self, name: str, ranks: int, folder: Path) -> None:
        """Keep what the workers need; `start` starts them."""
        self.name = name
        self._ranks = ranks
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the workers, without waiting for them."""
        self._folder.mkdir()
        run = secrets.token_hex(8)
        cores = sorted(os.sched_getaffinity(0))
        start_fd = os.memfd_create("coconet-bench")
        try:
            os.ftruncate(start_fd, START_BYTES * self._ranks)
            for rank in range(self._ranks):
                self._workers.append(self._start(rank, run, start_fd))
                who = {
                    "rank": rank,
                    "size": self._ranks,
                    "cpu": cores[rank % len(cores)],
                    "folder": str(self._folder),
                    "start_fd": start_fd,
                }
                self._send(rank, who)
        finally:
            os.close(start_fd)

    def ready(self) -> None:
        """Wait until every worker has opened its engine."""
        self._replies("start")

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
                _pipe(worker.stdin).close()
            except BrokenPipeError:  # an order that a dead worker never read
                continue
        deadline = time.monotonic() + _LEAVE_S
        for worker in self._workers:
            try:
                worker.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            _pipe(worker.stdout).close()

    def _start(self, rank: int, run: str, start_fd: int) -> subprocess.Popen[bytes]:
        place = (
            f"COCONET_RANK={rank}",
            f"COCONET_SIZE={self._ranks}",
            f"COCONET_RUN={run}",
        )
        engine = ENGINES[self.name].environment
        python = (sys.executable, "-m", "coconet.bench.worker", self.name)
        with self._stderr(rank).open("wb") as stderr:
            return subprocess.Popen(
                ["env", *_ENVIRONMENT, *engine, *place, *python],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                pass_fds=(start_fd,),
            )

    def _send(self, rank: int, order: dict[str, Any]) -> None:
        pipe = _pipe(self._workers[rank].stdin)
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
                selector.register(_pipe(worker.stdout), selectors.EVENT_READ, rank)
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
                    line = _pipe(self._workers[rank].stdout).readline()
                    if not line.endswith(b"\n"):
                        raise self._failure(rank, do)
                    replies[rank] = json.loads(line)
                    selector.unregister(key.fileobj)
        return [replies[rank] for rank in range(self._ranks)]

    def _failure(self, rank: int, do: str) -> PeerFailed:
        try:
            code = self._workers[rank].wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            code = None
        text = self._stderr(rank).read_text(errors="replace").splitlines()
        last = "".join(f"\n    {line}" for line in text[-_STDERR_LINES:])
        return PeerFailed(
            f"{self.name}: the worker of rank {rank} failed in {do!r}",
            got=f"exit code {code}{last}",
            ranks=(rank,),
        )

    def _stderr(self, rank: int) -> Path:
        return self._folder / f"stderr-{rank}"


@contextmanager
def open_crews(names: Sequence[str], ranks: int) -> Generator[list[Crew]]:
    """Start the workers of all engines at once; on leaving, none of them is left."""
    with ExitStack() as stack:
        private = tempfile.TemporaryDirectory(prefix="coconet-bench-")
        folder = stack.enter_context(private)
        crews: list[Crew] = []
        for number, name in enumerate(names):
            crew = Crew(name, ranks, Path(folder) / str(number))
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


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("a worker is started with pipes")
    return pipe

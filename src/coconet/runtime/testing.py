"""Run functions on ranks in tests, with faults, and see what they leave behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coconet.options import checked_count, checked_seconds
from coconet.runtime.launch import job_of_call
from coconet.runtime.ranks import Ended, run_job
from coconet.runtime.travel import reference, resolve
from coconet.settings import launch

__all__ = ["Fault", "Outcome", "run_ranks"]

LEAK_GRACE_S = 2.0  # for the kernel to take down what is already killed
POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Fault:
    """A signal that one rank gets.

    after_s  seconds after its function was called
    """

    rank: int
    signal: int = signal.SIGKILL
    after_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no rank, signal or time."""
        checked_count("rank", self.rank, least=0)
        checked_seconds("after_s", self.after_s, least=0)
        if self.signal not in signal.valid_signals():
            raise ValueError(f"signal is one of this system, got {self.signal!r}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What running a function on ranks came to; one entry a rank, in their order.

    results      None where a rank did not return
    returncodes  minus the signal's number for a rank that was killed
    wall_s       seconds from start to the end of the last rank
    stderr       what each rank printed there, and the traceback that ended it
    leaks        what the run left: names in /dev/shm, sockets, processes
    """

    results: tuple[Any, ...]
    returncodes: tuple[int, ...]
    wall_s: float
    stderr: tuple[str, ...]
    leaks: tuple[str, ...]


def run_ranks(
    n: int,
    function: Callable[..., object],
    *args: object,
    fault: Fault | None = None,
    timeout_s: float = 60,
) -> Outcome:
    """Call a function on n fresh interpreters; failures are returned, not raised.

    One call may run many cases: starting ranks costs more than most of them.

    Blocks  until every rank has ended, at most timeout_s and a grace of seconds
    """
    if fault:
        victim = [fault.rank, int(fault.signal), fault.after_s]
        args = (victim, reference(function), *args)
        function = _call_with_fault
    job = job_of_call(n, function, args, {}, timeout_s=timeout_s)
    before = _shared_names()
    began = time.perf_counter()
    ended, _ = run_job(job)
    wall_s = time.perf_counter() - began
    return Outcome(
        results=tuple(end.result for end in ended),
        returncodes=tuple(end.returncode for end in ended),
        wall_s=wall_s,
        stderr=tuple(_words(end) for end in ended),
        leaks=_leaks(job.token, before),
    )


def _words(end: Ended) -> str:
    return end.stderr + (end.raised.text if end.raised else "")


def _call_with_fault(
    fault: list[Any], function: dict[str, Any], *args: object
) -> object:
    """Call a function on a rank; have the victim signal itself meanwhile."""
    rank, number, after_s = fault
    place = launch()
    if place and place.rank == rank:
        if after_s:
            timer = threading.Timer(after_s, os.kill, (os.getpid(), number))
            timer.daemon = True
            timer.start()
        else:
            os.kill(os.getpid(), number)
    return resolve(function)(*args)


def _leaks(token: str, before: set[str]) -> tuple[str, ...]:
    """Say what is left of a run, after a moment for what is about to go."""
    deadline = time.monotonic() + LEAK_GRACE_S
    while True:
        left = sorted(_shared_names() - before) + _processes(token) + _sockets(token)
        if not left or time.monotonic() > deadline:
            return tuple(left)
        time.sleep(POLL_S)


def _shared_names() -> set[str]:
    return {str(path) for path in Path("/dev/shm").iterdir()}


def _processes(token: str) -> list[str]:
    """Return the processes that have the run's token in their environment."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"COCONET_RUN={token}".encode() in (folder / "environ").read_bytes():
                found.append(f"process {folder.name}")
        except OSError:  # it ended, or is another user's
            continue
    return found


def _sockets(token: str) -> list[str]:
    lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    return [f"socket {line.split()[-1]}" for line in lines if token in line]

"""Ranks as processes: start them, pass on what they print, stop them all.

Stopping is a list of steps (when, signal): the peers of a rank that failed get time to
fail by themselves, in their own words, before the next step is taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, TextIO, cast

from coconet.runtime.child import Raised
from coconet.runtime.travel import loads

__all__ = ["Ended", "Job", "run_job"]

FAIL_GRACE_S = 3.0  # for the peers of a rank that failed
TERM_GRACE_S = 1.5
INTERRUPT_GRACE_S = 1.5
TERMINATE_GRACE_S = 10.0
DUMP_GRACE_S = 0.5  # to write the stacks of ranks that are late
UNKILLABLE_S = 5.0  # waited for twice

GIVE_UP = 0  # the step after SIGKILL
DUMP_STACKS = signal.SIGUSR2
TIMED_OUT = signal.SIGALRM  # in place of the signal that stopped a job

TAIL_LINES = 1000
LINE_BYTES = READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Job:
    """What to run as n ranks: a script (argv) or a call, encoded.

    token      names the run, unique on this host
    env        the environment of the ranks
    timeout_s  after which all ranks are stopped; None: never
    """

    n: int
    token: str
    env: Mapping[str, str]
    argv: tuple[str, ...] = ()
    call: bytes = b""
    pin: bool = True
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a rank ended.

    returncode   minus the signal's number if one killed it
    ended_ns     when its end was seen, on the host's monotonic clock
    was_stopped  whether the launcher stopped it
    has_failed   ended otherwise than with 0 and, for a call, a result
    stderr       its last lines
    """

    rank: int
    returncode: int
    ended_ns: int
    was_stopped: bool
    has_failed: bool
    stderr: str
    result: object
    raised: Raised | None


def run_job(job: Job, *, wake: int | None = None) -> tuple[list[Ended], int]:
    """Run a job; return how each rank ended, and the signal that stopped all, or 0.

    wake  a pipe that gives the numbers of the signals that this process gets

    Blocks  until every rank has ended
    """
    supervisor = _Supervisor(job, wake)
    try:
        supervisor.start()
        supervisor.loop()
    finally:
        ended = supervisor.close()
    return ended, supervisor.stopped_by


class _Stream:
    """One pipe of a rank, passed on in whole lines."""

    def __init__(self, pipe: IO[bytes], sink: TextIO, prefix: str = "") -> None:
        self.pipe = pipe
        self.sink = sink
        self.prefix = prefix.encode()
        self.partial = b""
        self.tail: deque[bytes] = deque(maxlen=TAIL_LINES)
        os.set_blocking(pipe.fileno(), False)

    def pump(self) -> bool:
        """Pass on what has come; return whether more can come."""
        try:
            while content := os.read(self.pipe.fileno(), READ_BYTES):
                # a progress bar ends its lines with \r
                lines = (self.partial + content).splitlines(keepends=True)
                self.partial = b""
                if not lines[-1].endswith((b"\n", b"\r")):
                    if len(lines[-1]) < LINE_BYTES:
                        self.partial = lines.pop()
                    else:
                        lines[-1] += b"\n"
                self._pass_on(lines)
        except BlockingIOError:
            return True
        except BrokenPipeError:  # nobody reads us: then nobody reads the rank either
            return False
        return False

    def close(self) -> None:
        """Pass on the rest."""
        if self.pipe.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self.pump()
            if self.partial:
                self._pass_on([self.partial + b"\n"])
        self.pipe.close()

    def _pass_on(self, lines: list[bytes]) -> None:
        self.tail.extend(lines)
        content = b"".join(self.prefix + line for line in lines)
        if buffer := getattr(self.sink, "buffer", None):
            self.sink.flush()
            buffer.write(content)
        else:  # a notebook's stream takes only text
            self.sink.write(content.decode(errors="replace"))
        self.sink.flush()


class _Rank:
    """One running rank."""

    def __init__(self, job: Job, rank: int, call: int) -> None:
        self.rank = rank
        self.must_answer = bool(job.call)
        self.report_file = os.memfd_create("coconet-report")
        self.report: dict[str, Any] = {}
        self.returncode: int | None = None
        self.ended_ns = 0
        self.was_stopped = False
        order = {
            "launcher": os.getpid(),
            "cpus": _share_of_cpus(rank, job.n) if job.pin else [],
            "report": self.report_file,
            "call": call,
        }
        child = (sys.executable, "-P", "-m", "coconet.runtime.child")
        self.process = subprocess.Popen(
            [*child, json.dumps(order), *job.argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**job.env, **_place(job, rank)},
            pass_fds=[self.report_file, *([call] if call else [])],
            process_group=0,
        )
        self.pidfd = os.pidfd_open(self.process.pid)
        stdout = cast("IO[bytes]", self.process.stdout)
        stderr = cast("IO[bytes]", self.process.stderr)
        self.stdout = _Stream(stdout, sys.stdout)
        self.stderr = _Stream(stderr, sys.stderr, f"[{rank}] ")

    def signal(self, number: int) -> None:
        """Send a signal to the rank and to what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def reap(self) -> None:
        """Note the rank's end; what it left behind ends too."""
        self.ended_ns = time.monotonic_ns()
        self.signal(signal.SIGKILL)  # while the pid is still the rank's
        self.returncode = self.process.wait()
        self.report = self._read_report()

    @property
    def has_failed(self) -> bool:
        """Whether it ended otherwise than with 0 and, for a call, a result."""
        is_silent = self.must_answer and "result" not in self.report
        return bool(self.returncode) or is_silent

    def has_ended_after(self, patience_s: float) -> bool:
        """Wait for its end that long."""
        return bool(select.select([self.pidfd], [], [], patience_s)[0])

    def close(self) -> Ended:
        """Release everything and return how it ended."""
        self.stdout.close()
        self.stderr.close()
        os.close(self.report_file)
        os.close(self.pidfd)
        raised = self.report.get("raised")
        return Ended(
            rank=self.rank,
            returncode=-signal.SIGKILL if self.returncode is None else self.returncode,
            ended_ns=self.ended_ns,
            was_stopped=self.was_stopped,
            has_failed=self.has_failed,
            stderr=b"".join(self.stderr.tail).decode(errors="replace"),
            result=self.report.get("result"),
            raised=Raised(**raised) if raised and self.returncode else None,
        )

    def _read_report(self) -> dict[str, Any]:
        with open(self.report_file, "rb", closefd=False) as file:
            file.seek(0)
            blob = file.read()
        try:
            return cast("dict[str, Any]", loads(blob))
        except ValueError:  # it said nothing, or was killed while it spoke
            return {}


class _Supervisor:
    """The state of the loop: who runs, and the next steps towards the end."""

    def __init__(self, job: Job, wake: int | None) -> None:
        self.job = job
        self.wake = wake
        self.ranks: list[_Rank] = []
        self.selector = selectors.DefaultSelector()
        self.steps: list[tuple[float, int]] = []
        self.stopped_by = 0
        self.deadline_s = float("inf")

    def start(self) -> None:
        if self.job.timeout_s is not None:
            self.deadline_s = time.monotonic() + self.job.timeout_s
        call = os.memfd_create("coconet-call") if self.job.call else 0
        try:
            if call:
                with open(call, "wb", closefd=False) as file:
                    file.write(self.job.call)
            for rank in range(self.job.n):
                self._watch(_Rank(self.job, rank, call))
        finally:
            if call:
                os.close(call)
        if self.wake is not None:
            self.selector.register(self.wake, selectors.EVENT_READ)

    def _watch(self, rank: _Rank) -> None:
        self.ranks.append(rank)
        self.selector.register(rank.pidfd, selectors.EVENT_READ, rank)
        for stream in (rank.stdout, rank.stderr):
            self.selector.register(stream.pipe, selectors.EVENT_READ, stream)

    def loop(self) -> None:
        """Handle events until every rank has ended, or is given up."""
        while self._alive():
            due_s = min([self.deadline_s, *(when for when, _ in self.steps[:1])])
            wait_s = None if due_s == float("inf") else max(0, due_s - time.monotonic())
            for key, _ in self.selector.select(wait_s):
                self._handle(key.fileobj, key.data)
            if time.monotonic() >= self.deadline_s:
                self.deadline_s = float("inf")
                self._stop(TIMED_OUT)
            if self.steps and time.monotonic() >= self.steps[0][0]:
                _, number = self.steps.pop(0)
                if number == GIVE_UP:  # close() waits a last time
                    return
                self._signal(number)

    def _alive(self) -> list[_Rank]:
        return [rank for rank in self.ranks if rank.returncode is None]

    def _handle(self, file: Any, who: _Rank | _Stream | None) -> None:
        match who:
            case _Rank():
                self.selector.unregister(file)
                who.reap()
                if who.has_failed and not self.steps:
                    self._plan((FAIL_GRACE_S, signal.SIGTERM), (TERM_GRACE_S, None))
            case _Stream():
                if not who.pump():
                    self.selector.unregister(file)
                    who.close()
            case None:
                for number in os.read(file, 16):
                    self._stop(number)

    def _stop(self, number: int) -> None:
        """Stop all ranks because of a signal; a second one does not wait."""
        if self.stopped_by:
            self._plan((0, None))
            return
        self.stopped_by = number
        if number == TIMED_OUT:
            self._plan((0, DUMP_STACKS), (DUMP_GRACE_S, None))
        elif number == signal.SIGINT:
            self._plan(
                (0, number), (INTERRUPT_GRACE_S, signal.SIGTERM), (TERM_GRACE_S, None)
            )
        else:
            self._plan((0, signal.SIGTERM), (TERMINATE_GRACE_S, None))

    def _plan(self, *steps: tuple[float, int | None]) -> None:
        """Take steps, each some time after the one before; None is the end of it."""
        when = time.monotonic()
        self.steps = []
        for delay_s, number in steps:
            when += delay_s
            self.steps.append((when, signal.SIGKILL if number is None else number))
        self.steps.append((when + UNKILLABLE_S, GIVE_UP))

    def _signal(self, number: int) -> None:
        for rank in self._alive():
            rank.was_stopped = True
            rank.signal(number)

    def close(self) -> list[Ended]:
        """Kill who still runs and return how every rank ended."""
        for rank in self._alive():
            rank.was_stopped = True
            rank.signal(signal.SIGKILL)
            if rank.has_ended_after(UNKILLABLE_S):
                rank.reap()
            else:
                print(
                    f"coconet: rank {rank.rank} (pid {rank.process.pid}) cannot be "
                    "killed; this host may need a restart",
                    file=sys.stderr,
                )
        self.selector.close()
        return [rank.close() for rank in self.ranks]


def _place(job: Job, rank: int) -> dict[str, str]:
    return {
        "COCONET_RANK": str(rank),
        "COCONET_SIZE": str(job.n),
        "COCONET_RUN": job.token,
    }


def _share_of_cpus(rank: int, n: int) -> list[int]:
    """Return one of n equal shares of the cpus, none where they do not suffice."""
    cpus = sorted(os.sched_getaffinity(0))
    if n == 1 or n > len(cpus):
        return []
    share = len(cpus) // n
    return cpus[rank * share : (rank + 1) * share]

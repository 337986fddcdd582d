"""Start the ranks of a run by hand, without the launcher, and see how each ends."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coconet import settings

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = Path(settings.__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Ended:
    """How one process ended; said is the JSON that it printed, line by line."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def said(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]


class Run:
    """Processes that share a run id; each is started by `start`."""

    def __init__(self) -> None:
        self.run = uuid.uuid4().hex
        self.processes: list[subprocess.Popen[str]] = []

    def start(
        self, program: str, *args: object, rank: int, size: int, **env: str
    ) -> subprocess.Popen[str]:
        place = {"COCONET_RANK": rank, "COCONET_SIZE": size, "COCONET_RUN": self.run}
        process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / f"{program}.py"), *map(str, args)],
            env={
                **os.environ,
                "PYTHONPATH": str(SOURCE),
                **{name: str(value) for name, value in place.items()},
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def start_all(self, program: str, *args: object, size: int, **env: str) -> None:
        for rank in range(size):
            self.start(program, *args, rank=rank, size=size, **env)

    def end(self, timeout_s: float = 60) -> list[Ended]:
        """Wait for every process, in the order they were started."""
        ended: list[Ended] = []
        for process in self.processes:
            out, err = process.communicate(timeout=timeout_s)
            ended.append(Ended(process.returncode, out, err))
        return ended


@contextmanager
def fresh_run() -> Iterator[Run]:
    made = Run()
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()


@pytest.fixture
def run() -> Iterator[Run]:
    """A run whose processes are gone after the test."""
    with fresh_run() as made:
        yield made


@pytest.fixture
def other_run() -> Iterator[Run]:
    """A second run beside it."""
    with fresh_run() as made:
        yield made


@pytest.fixture(scope="module")
def run_all() -> Callable[..., list[Ended]]:
    """Start all ranks of a run and wait for their ends."""

    def start_and_end(program: str, *args: object, size: int) -> list[Ended]:
        with fresh_run() as made:
            made.start_all(program, *args, size=size)
            return made.end()

    return start_and_end

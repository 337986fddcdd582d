"""Starts the workers of one engine and holds the pipes to them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Worker", "launch_each", "launch_together"]

Ours = tuple[IO[bytes], IO[bytes]]
Theirs = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Worker:
    """One rank: the pipes to it, and the process that it is or that started it.

    Its pipes are not its standard streams, which a launcher keeps to itself.
    """

    orders: IO[bytes]
    replies: IO[bytes]
    process: subprocess.Popen[bytes]
    stderr: Path


def launch_each(
    commands: Sequence[Sequence[str]], folder: Path, start_fd: int
) -> list[Worker]:
    """Start a process per rank, without waiting; adds the pipes to each command."""
    workers: list[Worker] = []
    for rank, command in enumerate(commands):
        stderr = folder / f"stderr-{rank}"
        with _pipes() as (ours, theirs):
            words = [*command, *map(str, theirs)]
            process = _start(words, stderr, (start_fd, *theirs))
        workers.append(Worker(*ours, process, stderr))
    return workers


def launch_together(
    launcher: Sequence[str],
    commands: Sequence[Sequence[str]],
    folder: Path,
    start_fd: int,
) -> list[Worker]:
    """Start all ranks through one launcher with mpiexec's manners, as launch_each."""
    stderr = folder / "stderr"
    words, handed = [*launcher], [start_fd]
    with ExitStack() as stack:
        pipes = [stack.enter_context(_pipes()) for _ in commands]
        for command, (_, theirs) in zip(commands, pipes, strict=True):
            words += ["-n", "1", *command, *map(str, theirs), ":"]
            handed += theirs
        process = _start(words[:-1], stderr, handed)
    return [Worker(*ours, process, stderr) for ours, _ in pipes]


def _start(
    command: Sequence[str], stderr: Path, fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    with stderr.open("wb") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            pass_fds=fds,
        )


@contextmanager
def _pipes() -> Generator[tuple[Ours, Theirs]]:
    """Open a worker's two pipes; on leaving, its ends are closed here."""
    orders, order_end = os.pipe()
    reply_end, replies = os.pipe()
    try:
        yield (
            (os.fdopen(order_end, "wb"), os.fdopen(reply_end, "rb")),
            (orders, replies),
        )
    finally:
        os.close(orders)
        os.close(replies)

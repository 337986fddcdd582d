"""Where the ranks of an engine wait for each other before their clocks start."""

from __future__ import annotations

import mmap
import os
import time

__all__ = ["START_BYTES", "StartLine"]

START_BYTES = 64
_WAIT_S = 60.0


class StartLine:
    """A count per rank in shared memory, START_BYTES apart.

    It only starts clocks together: no data depends on it.
    """

    def __init__(self, fd: int, *, rank: int, size: int) -> None:
        """Map the counts; the file holds START_BYTES per rank."""
        words = memoryview(mmap.mmap(fd, size * START_BYTES)).cast("q")
        self.words = words[:: START_BYTES // words.itemsize]
        self.rank = rank

    def wait(self) -> None:
        """Return as soon as every rank has called as often as this one.

        Raises  TimeoutError  a rank is missing for a minute
        """
        words, deadline = self.words, time.monotonic() + _WAIT_S
        words[self.rank] += 1
        mine = words[self.rank]
        while min(words.tolist()) < mine:
            os.sched_yield()
            if time.monotonic() > deadline:
                raise TimeoutError("a rank did not come to the start line")

"""What who waits for a tuning sees, and what their Ctrl-C means."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TextIO

__all__ = ["Progress", "noted_interrupt", "terminal"]


@dataclass(slots=True)
class Progress:
    """One line that is written over and over; nothing where nobody would see it.

    stream  a terminal, or what passes lines on to one; None: say nothing
    """

    stream: TextIO | None
    _width: int = field(default=0, init=False)

    def show(self, text: str) -> None:
        """Replace the line."""
        if self.stream is not None:
            print(text.ljust(self._width), end="\r", file=self.stream, flush=True)
            self._width = len(text)

    def close(self) -> None:
        """Clear the line."""
        if self._width:
            self.show("")
            self._width = 0


def terminal(rank: int) -> Progress:
    """Return the progress of a rank: rank 0 shows it, if stderr is a terminal."""
    is_shown = rank == 0 and sys.stderr.isatty()
    return Progress(sys.stderr if is_shown else None)


@contextlib.contextmanager
def noted_interrupt() -> Generator[Callable[[], bool]]:
    """Note the first Ctrl-C and raise nothing; yields: was there one?

    The second one acts as before, and so does the first outside the main thread.
    """
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(*_: object) -> None:
        noted.set()
        signal.signal(signal.SIGINT, before)

    if callable(before):  # not where it is ignored, as under nohup
        signal.signal(signal.SIGINT, note)
    try:
        yield noted.is_set
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)

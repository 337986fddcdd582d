"""Where in the user's source something was written."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

__all__ = ["Location", "user_frame", "user_line"]

_PACKAGE = f"{Path(__file__).resolve().parents[1]}/"


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's source; file is a path as Python knows it."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return `name.py:12`, short enough for a message."""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


def user_frame() -> FrameType | None:
    """Return the innermost frame outside coconet, or None if there is none."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def user_line() -> Location | None:
    """Return the line of the user's source that is running, or None."""
    frame = user_frame()
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame else None


def _is_ours(frame: FrameType) -> bool:
    inside = frame.f_code.co_filename.startswith(_PACKAGE)
    return inside and "/workloads/" not in frame.f_code.co_filename

"""Which line of the user's source makes a value, and what it calls it."""

from __future__ import annotations

import ast
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from coconet.ir import Location
from coconet.ir.location import user_frame

__all__ = ["caller", "reading"]

_read: ContextVar[Location | None] = ContextVar("read", default=None)


def caller() -> tuple[Location | None, str]:
    """Return the innermost line outside coconet, and the name it assigns to, or "".

    While a text is read, its line, and no name.
    """
    if line := _read.get():
        return line, ""
    frame = user_frame()
    if frame is None:
        return None, ""
    location = Location(frame.f_code.co_filename, frame.f_lineno)
    return location, _assigned_name(frame)


@contextmanager
def reading(line: Location) -> Generator[None]:
    """Let values be made by a line of a text, not by the code that reads it."""
    token = _read.set(line)
    try:
        yield
    finally:
        _read.reset(token)


def _assigned_name(frame: FrameType) -> str:
    """Return x if the call or operator that runs is all of `x = ...`."""
    from executing import Source

    node: Any = Source.executing(frame).node
    match getattr(node, "parent", None):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            return name
        case _:
            return ""

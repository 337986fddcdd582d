"""Which line of the user's source makes a value, and what it calls it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import FrameType
from typing import Any

from coconet.ir import Location

__all__ = ["caller"]

_PACKAGE = f"{Path(__file__).resolve().parents[1]}/"


def caller() -> tuple[Location | None, str]:
    """Return the innermost line outside coconet, and the name it assigns to, or ""."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return None, ""
    location = Location(frame.f_code.co_filename, frame.f_lineno)
    return location, _assigned_name(frame)


def _is_ours(frame: FrameType) -> bool:
    inside = frame.f_code.co_filename.startswith(_PACKAGE)
    return inside and "/workloads/" not in frame.f_code.co_filename


def _assigned_name(frame: FrameType) -> str:
    """Return x if the call or operator that runs is all of `x = ...`."""
    from executing import Source

    node: Any = Source.executing(frame).node
    match getattr(node, "parent", None):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            return name
        case _:
            return ""

"""Where in the user's source a value was made."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Location"]


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's source; file is a path as Python knows it."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return `name.py:12`, short enough for a message."""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"

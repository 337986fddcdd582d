"""Groups of ranks."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Group"]


@dataclass(frozen=True, slots=True)
class Group:
    """An axis of ranks, bound to real processes when a program is compiled.

    name  how programs print it
    size  the number of ranks, or None: whatever it is bound to

    Raises ValueError if size is not a positive integer.
    """

    name: str
    size: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes that are not counts."""
        if type(self.name) is not str:
            raise TypeError(f"a group's name is a string, got {self.name!r}")
        if self.size is not None and (type(self.size) is not int or self.size < 1):
            raise ValueError(
                f"a group has a positive number of ranks, got {self.size!r}"
            )

    def __repr__(self) -> str:
        """Return the constructor call."""
        size = "" if self.size is None else f", {self.size}"
        return f"Group({self.name!r}{size})"

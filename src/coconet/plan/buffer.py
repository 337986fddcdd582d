"""Memory that a plan names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coconet.ir import Cut, DType, Shape

__all__ = ["Buffer", "Role", "Space"]


class Space(Enum):
    """Who can address a buffer."""

    PRIVATE = "private"
    SYMMETRIC = "symmetric"


class Role(Enum):
    """Where a buffer comes from and how long it lives."""

    ARGUMENT = "arg"
    RESULT = "result"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Buffer:
    """One array on each rank.

    shape  the global shape
    cut    None: each rank holds the whole shape; else its piece by this cut
    """

    name: str
    dtype: DType
    shape: Shape
    cut: Cut | None
    space: Space
    role: Role

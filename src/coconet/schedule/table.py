"""Every transformation there is."""

from __future__ import annotations

from coconet.schedule.dead import Dead
from coconet.schedule.fuse import Fuse
from coconet.schedule.reorder import Reorder
from coconet.schedule.slice_state import SliceState
from coconet.schedule.split import Split
from coconet.schedule.transform import Transform

__all__ = ["TRANSFORMS"]

TRANSFORMS: tuple[type[Transform], ...] = (Split, Reorder, Fuse, SliceState, Dead)

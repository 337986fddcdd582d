"""Program to program: named, checked transformations, and schedules of them."""

from coconet.schedule.dead import Dead
from coconet.schedule.fuse import Fuse
from coconet.schedule.legality import loop_cut
from coconet.schedule.reorder import Reorder
from coconet.schedule.schedule import Draft, Schedule
from coconet.schedule.slice_state import SliceState
from coconet.schedule.split import Split
from coconet.schedule.table import TRANSFORMS
from coconet.schedule.transform import Transform

__all__ = [
    "TRANSFORMS",
    "Dead",
    "Draft",
    "Fuse",
    "Reorder",
    "Schedule",
    "SliceState",
    "Split",
    "Transform",
    "loop_cut",
]

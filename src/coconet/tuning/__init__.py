"""The tuner: the schedules worth trying, what each should cost, and the best one."""

from coconet.tuning.canonical import canonical
from coconet.tuning.cost import Estimate, Machine, estimate, keep_best
from coconet.tuning.search import Found, check, search

__all__ = [
    "Estimate",
    "Found",
    "Machine",
    "canonical",
    "check",
    "estimate",
    "keep_best",
    "search",
]

"""The definition: programs and plans run on all ranks in one process, with numpy."""

from coconet.interp.compare import Difference, first_difference
from coconet.interp.inputs import random_arguments
from coconet.interp.plan import run_plan
from coconet.interp.program import Results, run_program

__all__ = [
    "Difference",
    "Results",
    "first_difference",
    "random_arguments",
    "run_plan",
    "run_program",
]

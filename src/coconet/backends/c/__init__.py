"""Plans as C, compiled on first use, on symmetric shared memory."""

from coconet.backends.c.compile import compile_plan
from coconet.backends.c.printer import print_plan

__all__ = ["compile_plan", "print_plan"]

"""`coconet run -n N SCRIPT`: start a script in N processes on this host."""

from __future__ import annotations

from collections.abc import Sequence

from coconet.runtime.launch import run_script

__all__ = ["main"]


def main(argv: Sequence[str], *, ranks: int, pin: bool) -> int:
    """Run the script, or `-m` and a module, to its end and return its exit code."""
    return run_script(ranks, argv, pin=pin)

"""What every rank of a world of arrays runs."""

from __future__ import annotations

from probes import disagree_cases, memory_cases, value_cases

__all__ = ["MODULES", "run"]

MODULES = (value_cases, memory_cases, disagree_cases)


def run() -> dict[str, str]:
    """Run all cases of this world; say of each how it went."""
    results: dict[str, str] = {}
    for module in MODULES:
        results |= module.CASES.run()
    return results

"""What every rank of a world runs: the cases of all files, in one process."""

from __future__ import annotations

import choose_cases
import dist_cases
import mixed_cases
import optim_cases

FILES = {
    "optim_cases": optim_cases,
    "mixed_cases": mixed_cases,
    "choose_cases": choose_cases,
    "dist_cases": dist_cases,  # last: torch's default group changes what is usual
}


def run(folder: str) -> dict[str, dict[str, str]]:
    """Run all cases of this world, by file; say of each how it went."""
    results: dict[str, dict[str, str]] = {}
    for name, module in FILES.items():
        results[name] = module.run_cases(folder)
        if any(said != "ok" for said in results[name].values()):
            break  # the other ranks may be elsewhere
    return results

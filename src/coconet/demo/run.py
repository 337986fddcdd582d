"""Start the ranks of the demo and join what they found."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from coconet.bench.machine import machine, versions
from coconet.demo.facts import Facts, RankReport, sides
from coconet.demo.recipe import Recipe
from coconet.runtime.launch import run_script

__all__ = ["has_torch", "run"]

# One thread per rank; and gloo shall not look for this host's name on a network.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def has_torch() -> bool:
    """Whether torch is installed; it is not imported."""
    return importlib.util.find_spec("torch") is not None


def run(ranks: int, recipe: Recipe) -> Facts | int:
    """Run both sides on that many ranks; progress goes to stdout.

    Returns  the facts or, if a rank failed or a signal stopped the run, the exit code
             that says so: the launcher has told why
    Blocks   about a minute for the demo's recipe
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="coconet-demo-") as name:
        folder = Path(name)
        (folder / "recipe.json").write_text(json.dumps(asdict(recipe)))
        command = ["-m", "coconet.demo.rank", name]
        if code := run_script(ranks, command, env=ENVIRONMENT):
            return code
        files = [folder / f"rank-{rank}.json" for rank in range(ranks)]
        reports = [RankReport.read(file) for file in files]
    ours, reference = sides(reports, warm=recipe.warm)
    return Facts(
        task=reports[0].task,
        is_exact=reports[0].is_exact,
        ranks=ranks,
        ours=ours,
        reference=reference,
        listing=reports[0].listing,
        notes=reports[0].notes,
        machine=machine(),
        versions=versions(),
        wall_s=time.monotonic() - began,
    )

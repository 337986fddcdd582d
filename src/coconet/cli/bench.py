"""`coconet bench`: time a workload beside what people use today."""

from __future__ import annotations

from pathlib import Path

import typer

from coconet.bench.call import run_call
from coconet.bench.startup import run_startup
from coconet.bench.workload import parse_sizes, run_workload

__all__ = ["main"]


def main(workload: str, ranks: int, sizes: str, json: Path | None) -> int:
    """Run the workload and return the exit code."""
    if json is not None and not json.absolute().parent.is_dir():
        raise typer.BadParameter(f"{json.parent} is no directory", param_hint="--json")
    match workload:
        case "adam" | "chain":
            try:
                elements = parse_sizes(sizes)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint="--sizes") from None
            run_workload(workload, ranks, elements, json)
        case "call":
            run_call(ranks, json)
        case "startup":
            run_startup(json)
        case _:
            raise typer.BadParameter(f"{workload!r} is not adam, chain, call or startup")
    return 0

"""`coconet bench`: time a workload beside what people use today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from coconet.bench.call import run_call
from coconet.bench.engines.table import ENGINES
from coconet.bench.startup import run_startup
from coconet.bench.workload import parse_sizes, run_workload

__all__ = ["main"]


def main(
    workload: str,
    ranks: int,
    sizes: str,
    json: Path | None,
    *,
    engines: Sequence[str] | None = None,
) -> int:
    """Run the workload and return the exit code; None is every engine of it."""
    if json is not None and not json.absolute().parent.is_dir():
        raise typer.BadParameter(f"{json.parent} is no directory", param_hint="--json")
    match workload:
        case "adam" | "chain":
            try:
                elements = parse_sizes(sizes)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint="--sizes") from None
            if unknown := set(engines or ()) - set(ENGINES):
                known = ", ".join(ENGINES)
                raise typer.BadParameter(
                    f"{', '.join(unknown)} is not among {known}", param_hint="--engines"
                )
            run_workload(workload, ranks, elements, json, engines=engines)
        case "call":
            run_call(ranks, json)
        case "startup":
            run_startup(json)
        case _:
            raise typer.BadParameter(
                f"{workload!r} is not adam, chain, call or startup"
            )
    return 0

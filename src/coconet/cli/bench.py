"""`coconet bench`: time a workload beside what people use today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from coconet.bench.call import run_call
from coconet.bench.engines.table import SELECTABLE
from coconet.bench.engines.task import DTYPES
from coconet.bench.never_slower import run_never_slower
from coconet.bench.startup import run_startup
from coconet.bench.workload import check_engines, parse_sizes, run_workload

__all__ = ["main"]


def main(
    workload: str,
    ranks: int,
    sizes: str,
    json: Path | None,
    *,
    dtype: str | None = None,
    engines: Sequence[str] | None = None,
) -> int:
    """Run the workload; returns the exit code, 1 where coconet may be slower.

    dtype: None is f32, or every one of never-slower.  engines: None is every one.
    """
    if json is not None and not json.absolute().parent.is_dir():
        raise typer.BadParameter(f"{json.parent} is no directory", param_hint="--json")
    dtypes = ("f32",) if workload == "chain" else DTYPES
    if dtype is not None and dtype not in dtypes:
        raise typer.BadParameter(
            f"{dtype!r} is not {' or '.join(dtypes)}", param_hint="--dtype"
        )
    elements = _elements(sizes)
    if workload in SELECTABLE:
        _check_engines(workload, engines or ())
    match workload:
        case "adam" | "sgd" | "chain":
            run_workload(
                workload, ranks, elements, json, dtype=dtype or "f32", engines=engines
            )
        case "never-slower":
            dtypes = (dtype,) if dtype else DTYPES
            ratios = run_never_slower(
                ranks, elements, json, dtypes=dtypes, engines=engines
            )
            return int(not all(ratio.is_never_slower for ratio in ratios))
        case "call":
            run_call(ranks, json)
        case "startup":
            run_startup(json)
        case _:
            raise typer.BadParameter(
                f"{workload!r} is not adam, sgd, chain, never-slower, call or startup"
            )
    return 0


def _elements(sizes: str) -> list[int]:
    try:
        return parse_sizes(sizes)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sizes") from None


def _check_engines(workload: str, engines: Sequence[str]) -> None:
    try:
        check_engines(workload, engines)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--engines") from None

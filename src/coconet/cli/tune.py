"""`coconet tune`: find the fastest schedule of a program on this machine."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from coconet.bench.workload import parse_sizes
from coconet.ir import Program
from coconet.runtime.launch import run_script
from coconet.tuning.decision import Decision
from coconet.tuning.rank import DECISION, ORDER, Order
from coconet.tuning.request import Request
from coconet.verification.target import load_schedules, split_target

__all__ = ["dim_sizes", "main"]


def main(
    target: str,
    *,
    ranks: int,
    dims: Sequence[str],
    slice_state: Sequence[str],
    time_box_s: float,
    limit: int,
    fresh: bool,
    strict: bool,
    out: Path | None,
    as_json: bool,
) -> int:
    """Tune on that many ranks, print what was tried; return the exit code."""
    path, name = split_target(target)
    program, _ = load_schedules(path, name)
    if out is not None and not out.absolute().parent.is_dir():
        raise typer.BadParameter(f"{out.parent} is no directory", param_hint="--out")
    order = Order(
        path=str(path.resolve()),
        name=name,
        sizes=dim_sizes(dims),
        slice_state=tuple(slice_state),
        time_box_s=time_box_s,
        limit=limit,
        fresh=fresh,
        is_live=sys.stderr.isatty(),
    )
    _check(program, order)
    code, decision = _run(program, order, ranks)
    if decision is None:
        return code
    if out is not None:
        out.write_text(decision.schedule.to_json() + "\n")
    print(decision.to_json() if as_json else decision.report)
    if strict:
        decision.report.raise_if_nothing_won()
    return code


def dim_sizes(dims: Sequence[str]) -> dict[str, int]:
    """Return the numbers that options like N=1Mi name."""
    sizes: dict[str, int] = {}
    for text in dims:
        name, _, number = text.partition("=")
        try:
            (sizes[name],) = parse_sizes(number)
        except ValueError:
            raise typer.BadParameter(
                f"needs a dim and its size, like N=1000 or N=4Mi, got {text!r}",
                param_hint="--dim",
            ) from None
    return sizes


def _check(program: Program, order: Order) -> None:
    """Refuse here, once, what every rank would refuse."""
    try:
        Request.of(
            program,
            sizes=order.sizes,
            slice_state=order.slice_state,
            time_box_s=order.time_box_s,
            limit=order.limit,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _run(program: Program, order: Order, ranks: int) -> tuple[int, Decision | None]:
    """Return the launcher's exit code, and the decision if there was time for one."""
    with tempfile.TemporaryDirectory(prefix="coconet-tune-") as name:
        folder = Path(name)
        (folder / ORDER).write_bytes(msgspec.json.encode(order))
        code = run_script(ranks, ["-m", "coconet.tuning.rank", name])
        written = folder / DECISION
        if not written.exists():
            return code, None
        return code, Decision.from_json(program, written.read_text())

"""`coconet demo`: train beside torch, check, and write a report."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

import msgspec
import typer

from coconet.demo.checks import checks
from coconet.demo.recipe import Recipe
from coconet.demo.report import page, summary
from coconet.demo.run import has_torch, run

__all__ = ["main"]


def main(*, ranks: int, out: Path, as_json: bool) -> int:
    """Run the demo; return 1 if a check failed, or the exit code of ranks that did."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise typer.BadParameter(f"{out} can be no file", param_hint="--out")
    recipe = Recipe(has_torch=has_torch())
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        print(_opening(ranks, recipe), flush=True)
        facts = run(ranks, recipe)
    if isinstance(facts, int):
        return facts
    found = checks(facts)
    has_passed = all(check.passed for check in found)
    out.write_text(page(facts, found))
    if as_json:
        fields = asdict(facts) | {
            "checks": [asdict(check) for check in found],
            "passed": has_passed,
            "report": str(out),
        }
        print(msgspec.json.encode(fields).decode())
    else:
        print(f"\n{summary(facts, found)}\n\nreport: {out}")
    return 0 if has_passed else 1


def _opening(ranks: int, recipe: Recipe) -> str:
    if recipe.has_torch:
        return f"{ranks} ranks train a transformer for {recipe.steps} steps, twice"
    return (
        f"torch is not installed: {ranks} ranks take {recipe.steps} steps of the same "
        "Adam update on an array"
    )

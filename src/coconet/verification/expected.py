"""What a schedule must give: the program's own results, in the schedule's layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coconet.interp import Results, random_arguments, run_program
from coconet.ir import Program, Sliced
from coconet.ops import take_piece

__all__ = ["Named", "expected_results", "flat_results"]

Named = dict[str, tuple[Any, ...]]
"""By name of an output or updated input: one array per rank."""


def flat_results(results: Results) -> Named:
    """Return outputs and effects in one dict; inputs and values never share a name."""
    return results.outputs | results.effects


def expected_results(
    program: Program,
    scheduled: Program,
    ranks: int,
    sizes: Mapping[str, int],
    seed: int,
) -> Named:
    """Run the program as written; inputs that the schedule keeps in pieces are cut."""
    arguments = random_arguments(program, ranks, sizes, seed)
    results = flat_results(run_program(program, ranks, sizes, arguments))
    for value in scheduled.tensors:
        layout = value.type.layout
        was = program[value.name].type.layout
        if value.name in results and isinstance(layout, Sliced) and layout != was:
            whole = results[value.name]
            results[value.name] = tuple(
                take_piece(array, layout.cut, position, ranks)
                for position, array in enumerate(whole)
            )
    return results

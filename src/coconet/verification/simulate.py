"""Verify schedules on simulated ranks: programs, and plans under interleavings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.lower import lower
from coconet.schedule import Schedule
from coconet.verification.expected import expected_results, flat_results
from coconet.verification.report import Case, Report
from coconet.verification.sizes import sizes_for

__all__ = ["verify_simulated"]


def verify_simulated(
    schedules: Mapping[str, Schedule],
    *,
    ranks: Iterable[int] = (1, 2, 3, 4),
    sizes: Sequence[Mapping[str, int]] | None = None,
    seeds: int = 2,
) -> Report:
    """Compare each schedule's program and plan with the program as written.

    sizes   numbers for the symbolic dims; None: those of `sizes_for`
    seeds   interleavings of the plan for each case
    """
    cases: list[Case] = []
    for count in ranks:
        for name, schedule in schedules.items():
            plan = lower(schedule.result, count)
            chosen = sizes or sizes_for(schedule.program.dims, count)
            for number, size in enumerate(chosen):
                arguments = random_arguments(schedule.result, count, size, number)
                need = expected_results(
                    schedule.program, schedule.result, count, size, number
                )
                runs = {"program": run_program(schedule.result, count, size, arguments)}
                for seed in range(seeds):
                    runs[f"plan, interleaving {seed}"] = run_plan(
                        plan, size, arguments, seed=seed
                    )
                for executor, results in runs.items():
                    found = first_difference(flat_results(results), need)
                    cases.append(
                        Case(name, count, dict(size), executor, str(found or ""))
                    )
    first = next(iter(schedules.values()))
    return Report(first.program.name, tuple(cases))

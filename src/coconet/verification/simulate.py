"""Verify schedules on simulated ranks: programs, and plans under interleavings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.lower import lower
from coconet.options import checked_count, checked_counts
from coconet.schedule import Schedule
from coconet.verification.expected import expected_results, flat_results
from coconet.verification.report import Case, Report
from coconet.verification.sizes import checked_sizes, sizes_for

__all__ = ["verify_simulated"]


def verify_simulated(
    schedules: Mapping[str, Schedule],
    *,
    ranks: Iterable[int] = (1, 2, 3, 4),
    sizes: Sequence[Mapping[str, int]] | None = None,
    seeds: int = 2,
    seed: int = 0,
) -> Report:
    """Compare each schedule's program and plan with the program as written.

    sizes   numbers for the symbolic dims; None: those of `sizes_for`
    seeds   interleavings of the plan for each case
    seed    where the seeds of arguments and interleavings start

    Raises TypeError, ValueError for what is no number of ranks, size or seed.
    """
    checked_count("seeds", seeds)
    checked_count("seed", seed, least=0)
    counts = checked_counts("ranks", ranks)
    if not counts:
        raise ValueError("ranks is at least one number, got none")
    cases: list[Case] = []
    for count in counts:
        for name, schedule in schedules.items():
            plan = lower(schedule.result, count)
            dims = schedule.program.dims
            chosen = (
                sizes_for(dims, count) if sizes is None else checked_sizes(dims, sizes)
            )
            for number, size in enumerate(chosen, start=seed):
                arguments = random_arguments(schedule.result, count, size, number)
                need = expected_results(
                    schedule.program, schedule.result, count, size, number
                )
                runs = {"program": run_program(schedule.result, count, size, arguments)}
                for order in range(seed, seed + seeds):
                    runs[f"plan, interleaving {order}"] = run_plan(
                        plan, size, arguments, seed=order
                    )
                for executor, results in runs.items():
                    found = first_difference(flat_results(results), need)
                    cases.append(
                        Case(name, count, dict(size), executor, str(found or ""))
                    )
    first = next(iter(schedules.values()))
    return Report(first.program.name, tuple(cases))

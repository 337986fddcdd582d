"""`coconet show`: a program, a schedule of the library, its plan, its C."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from coconet.backends.c import print_plan
from coconet.cli.tune import dim_sizes
from coconet.errors import ScheduleError
from coconet.lower import lower
from coconet.tuning.explain import explain
from coconet.verification.target import load_schedules, split_target

__all__ = ["main"]

_RANKS = 2
"""A plan is for a number of ranks; what is shown is for two unless the group says."""


def main(
    target: str,
    *,
    schedule: str | None,
    plan: bool,
    code: bool,
    as_json: bool,
    why: bool = False,
    ranks: int | None = None,
    dims: Sequence[str] = (),
    slice_state: Sequence[str] = (),
) -> int:
    """Print what was asked for; the program as written if nothing was."""
    path, name = split_target(target)
    program, schedules = load_schedules(path, name)
    if schedule is not None and schedule not in schedules:
        raise ScheduleError(
            f"{name!r} has no schedule {schedule!r}",
            got=schedule,
            need=", ".join(schedules),
        )
    chosen = schedules[schedule or "as_written"]
    parts: dict[str, object] = {"program": str(program)}
    if schedule is not None:
        parts["schedule"] = str(chosen)
        parts["scheduled"] = str(chosen.result)
    if plan or code:
        lowered = lower(chosen.result, ranks or program.groups[0].size or _RANKS)
        if plan:
            parts["plan"] = str(lowered)
        if code:
            parts["code"] = print_plan(lowered)
    if why:
        subject = program if schedule is None else chosen
        explanation = explain(
            subject, ranks=ranks, sizes=dim_sizes(dims), slice_state=slice_state
        )
        parts["why"] = asdict(explanation) if as_json else explanation
    if as_json:
        print(json.dumps(parts | {"schedules": list(schedules)}))
    else:
        print("\n\n".join(map(str, parts.values())))
        print(f"\nschedules: {', '.join(schedules)}")
    return 0

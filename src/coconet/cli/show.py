"""`coconet show`: a program, a schedule of the library, its plan, its C."""

from __future__ import annotations

import json

from coconet.backends.c import print_plan
from coconet.errors import ScheduleError
from coconet.lower import lower
from coconet.verification.target import load_schedules, split_target

__all__ = ["main"]

_RANKS = 2
"""A plan is for a number of ranks; what is shown is for two unless the group says."""


def main(
    target: str, *, schedule: str | None, plan: bool, code: bool, as_json: bool
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
    parts = {"program": str(program)}
    if schedule is not None:
        parts["schedule"] = str(chosen)
        parts["scheduled"] = str(chosen.result)
    if plan or code:
        lowered = lower(chosen.result, program.groups[0].size or _RANKS)
        if plan:
            parts["plan"] = str(lowered)
        if code:
            parts["code"] = print_plan(lowered)
    if as_json:
        print(json.dumps(parts | {"schedules": list(schedules)}))
    else:
        print("\n\n".join(parts.values()))
        print(f"\nschedules: {', '.join(schedules)}")
    return 0

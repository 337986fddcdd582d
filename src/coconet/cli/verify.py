"""`coconet verify`: every schedule of a program, on real processes, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from coconet.verification import Report, verify_on_processes, verify_simulated
from coconet.verification.target import load_schedules, split_target

__all__ = ["main"]


def main(target: str, *, ranks: Sequence[int], as_json: bool) -> int:
    """Print cases, schedules and mismatches; return 1 if there is any mismatch."""
    path, name = split_target(target)
    _, schedules = load_schedules(path, name)
    simulated = verify_simulated(schedules, ranks=ranks)
    real = verify_on_processes(path, name, ranks)
    report = Report(name, (*simulated.cases, *real.cases))
    if as_json:
        cases = [asdict(case) for case in report.cases]
        print(json.dumps({"program": name, "cases": cases}))
    else:
        print(report)
        wrong = len(report.mismatches)
        print(
            f"{len(report.cases)} cases, {len(schedules)} schedules, {wrong} mismatches"
        )
    return 1 if report.mismatches else 0

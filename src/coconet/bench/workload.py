"""The workloads: an optimizer's step with its all-reduce, and a chain never seen."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coconet.bench.columns import header, line
from coconet.bench.driver import Crew, open_crews, take_turns
from coconet.bench.engines.table import (
    SELECTABLE,
    WORKLOADS,
    absent,
    exchanged_dtype,
)
from coconet.bench.engines.task import Task
from coconet.bench.machine import machine, versions
from coconet.bench.record import Record, record, write_json
from coconet.errors import VerificationError

__all__ = [
    "Row",
    "check_engines",
    "compare",
    "parse_sizes",
    "present",
    "rows",
    "run_workload",
]

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
# Of the largest value: sums in different orders, or one rounding to bf16.
_TOLERANCES = {"f32": 1e-5, "bf16": 2**-8}


def parse_sizes(text: str) -> list[int]:
    """Return the sizes that "1Ki..64Mi" (every doubling) or "100,4Ki" names.

    Raises  ValueError  the text names no sizes
    """
    sizes: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        size = _parse_size(first)
        end = _parse_size(last) if dots else size
        if end < size:
            raise ValueError(f"sizes go up, and {part!r} goes down")
        while size <= end:
            sizes.append(size)
            size *= 2
    return sizes


def run_workload(
    workload: str,
    ranks: int,
    sizes: Sequence[int],
    json_path: Path | None = None,
    *,
    dtype: str = "f32",
    engines: Sequence[str] | None = None,
    time_box_s: float = 20.0,
) -> list[Record]:
    """Time every engine at every size in turns, print a table, write the JSON.

    Before a size is timed, all engines take three steps and must agree.
    Units   time_box_s: seconds of turns per size
    Raises  VerificationError  two engines computed different parameters
            ResourceError  an MPI library is not the one its folder is named after
            PeerFailed, CollectiveTimeout  a worker failed
            ValueError  no engine of this workload has such a name
    """
    check_engines(workload, engines or ())
    names = present(engines or WORKLOADS[workload])
    records: list[Record] = []
    print(header(names, dtype))
    for row in rows(workload, names, ranks, sizes, dtype=dtype, time_box_s=time_box_s):
        medians = [entry.median_ms for entry in row.records]
        ratios = [median / medians[0] for median in medians[1:]]
        print(line(row.elements, [medians[0], *ratios]), flush=True)
        records += row.records
        if json_path is not None:  # after every size: the next may not fit
            write_json(
                json_path, machine=machine(), versions=versions(), records=records
            )
    return records


def check_engines(workload: str, names: Iterable[str]) -> None:
    """Raise ValueError unless all are engines of this workload."""
    known = SELECTABLE[workload]
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"{', '.join(unknown)} is not among {', '.join(known)}")


def present(names: Iterable[str]) -> list[str]:
    """Return the engines that can run here; says of any other what installs it."""
    found: list[str] = []
    for name in names:
        if reason := absent(name):
            print(f"{name} is left out: {reason}")
        else:
            found.append(name)
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """One size: seconds per step by engine, turn by turn, and their summaries."""

    elements: int
    samples_s: dict[str, list[float]]
    records: list[Record]


def rows(
    workload: str,
    names: Sequence[str],
    ranks: int,
    sizes: Sequence[int],
    *,
    dtype: str,
    time_box_s: float,
) -> Generator[Row]:
    """Time the engines side by side, size by size; see run_workload."""
    task = Task("adam" if workload == "chain" else workload, dtype)
    with open_crews(names, ranks, task) as crews:
        for elements in sizes:
            schedules = _prepare(crews, elements, _TOLERANCES[dtype])
            samples_s = take_turns(crews, time_box_s=time_box_s)
            for crew in crews:
                crew.ask("release")
            records = [
                record(
                    samples_s[crew.name],
                    workload=workload,
                    elements=elements,
                    dtype=exchanged_dtype(crew.name, dtype),
                    ranks=ranks,
                    name=crew.name,
                    library=crew.library,
                    schedule=schedules[crew.name],
                    bytes_per_rank=task.least_bytes(elements, ranks),
                )
                for crew in crews
            ]
            yield Row(elements, samples_s, records)


def compare(
    samples: dict[str, list[list[float]]], *, tolerance: float = _TOLERANCES["f32"]
) -> None:
    """Check that all ranks of all engines sampled the same parameter.

    Raises  VerificationError  two differ by more than that part of the largest value
    """
    found = [
        (f"{name} on rank {rank}", np.array(sample))
        for name, by_rank in samples.items()
        for rank, sample in enumerate(by_rank)
        if sample
    ]
    for who, sample in found[1:]:
        base_who, base = found[0]
        error = float(np.max(np.abs(sample - base)) / np.max(np.abs(base)))
        if not error <= tolerance:
            raise VerificationError(
                "two engines of the bench computed different parameters",
                got=f"{who} is {error:.2g} off {base_who}",
                need=f"at most {tolerance:g}, relative",
            )


def _prepare(crews: Sequence[Crew], elements: int, tolerance: float) -> dict[str, str]:
    """Make a size ready, compare the engines, and return their schedules by name."""
    schedules: dict[str, str] = {}
    parameters: dict[str, list[list[float]]] = {}
    for crew in crews:
        schedules[crew.name] = crew.ask("prepare", elements=elements)[0]["schedule"]
        parameters[crew.name] = [reply["sample"] for reply in crew.ask("check")]
    compare(parameters, tolerance=tolerance)
    return schedules


def _parse_size(text: str) -> int:
    number, unit = text.strip(), 1
    if number[-2:] in _UNITS:
        number, unit = number[:-2], _UNITS[number[-2:]]
    if not number.isdecimal() or int(number) == 0:
        raise ValueError(f"a size is a number such as 1000, 4Ki or 64Mi, not {text!r}")
    return int(number) * unit

"""The workloads: an Adam step with its all-reduce, and a chain never seen before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from coconet.bench.driver import Crew, open_crews, take_turns
from coconet.bench.engines.engine import least_bytes
from coconet.bench.engines.table import ENGINES, WORKLOADS, installed
from coconet.bench.machine import machine, versions
from coconet.bench.record import Record, record, write_json
from coconet.errors import VerificationError

__all__ = ["compare", "parse_sizes", "run_workload"]

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_TOLERANCE = 1e-5


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
    engines: Sequence[str] | None = None,
    time_box_s: float = 20.0,
) -> list[Record]:
    """Time every engine at every size in turns, print a table, write the JSON.

    Before a size is timed, all engines take three steps and must agree.
    Units   time_box_s: seconds of turns per size
    Raises  VerificationError  two engines computed different parameters
            PeerFailed, CollectiveTimeout  a worker failed
            ValueError  no engine has such a name
    """
    names = list(WORKLOADS[workload] if engines is None else engines)
    if unknown := set(names) - set(ENGINES):
        raise ValueError(f"engines are {list(ENGINES)}, not {sorted(unknown)}")
    for name in set(names) - set(installed()):
        print(f"{name} is left out: {ENGINES[name].needs} is not installed")
        names.remove(name)
    records: list[Record] = []
    with open_crews(names, ranks) as crews:
        print(_header(names))
        for elements in sizes:
            row = _measure(workload, crews, elements, ranks, time_box_s)
            print(_line(row), flush=True)
            records += row
    if json_path is not None:
        write_json(json_path, machine=machine(), versions=versions(), records=records)
    return records


def compare(samples: dict[str, list[list[float]]]) -> None:
    """Check that all ranks of all engines sampled the same parameter.

    Raises  VerificationError  two differ by more than 1e-5 of the largest value
    """
    rows = [
        (f"{name} on rank {rank}", np.array(sample))
        for name, by_rank in samples.items()
        for rank, sample in enumerate(by_rank)
        if sample
    ]
    for who, sample in rows[1:]:
        base_who, base = rows[0]
        error = float(np.max(np.abs(sample - base)) / np.max(np.abs(base)))
        if not error <= _TOLERANCE:
            raise VerificationError(
                "two engines of the bench computed different parameters",
                got=f"{who} is {error:.2g} off {base_who}",
                need=f"at most {_TOLERANCE:g}, relative",
            )


def _parse_size(text: str) -> int:
    number, unit = text.strip(), 1
    if number[-2:] in _UNITS:
        number, unit = number[:-2], _UNITS[number[-2:]]
    if not number.isdecimal() or int(number) == 0:
        raise ValueError(f"a size is a number such as 1000, 4Ki or 64Mi, not {text!r}")
    return int(number) * unit


def _measure(
    workload: str,
    crews: Sequence[Crew],
    elements: int,
    ranks: int,
    time_box_s: float,
) -> list[Record]:
    schedules: dict[str, str] = {}
    parameters: dict[str, list[list[float]]] = {}
    for crew in crews:
        schedules[crew.name] = crew.ask("prepare", elements=elements)[0]["schedule"]
        parameters[crew.name] = [reply["sample"] for reply in crew.ask("check")]
    compare(parameters)
    samples = take_turns(crews, time_box_s=time_box_s)
    for crew in crews:
        crew.ask("release")
    return [
        record(
            samples_s,
            workload=workload,
            elements=elements,
            dtype="f32",
            ranks=ranks,
            name=name,
            schedule=schedules[name],
            bytes_per_rank=least_bytes(elements, ranks),
        )
        for name, samples_s in samples.items()
    ]


def _header(names: Sequence[str]) -> str:
    columns = "  ".join(f"{name:>22}" for name in names)
    return f"{'elements':>10}  {columns}   (median ms, and times the first column)"


def _line(row: Iterable[Record]) -> str:
    first, *others = row
    cells = [f"{first.median_ms:>22.4g}"]
    cells += [
        f"{other.median_ms:>13.4g} {other.median_ms / first.median_ms:>7.2f}x"
        for other in others
    ]
    return f"{first.elements:>10}  " + "  ".join(cells)

"""One measured number with all that is needed to judge it, and the file of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Record", "record", "write_json"]


@dataclass(frozen=True, slots=True)
class Record:
    """What one engine took for one size of one workload.

    Units    elements: of the whole tensor; *_ms: milliseconds per step
             runs: samples behind the median, one per turn
             bytes_per_rank: the least bytes one step reads and writes on a rank
    Attributes
      dtype    of the gradient and the parameter that this engine exchanges
      library  what the engine runs on, in that library's own words
    """

    workload: str
    elements: int
    dtype: str
    ranks: int
    name: str
    library: str
    schedule: str
    median_ms: float
    p10_ms: float
    p90_ms: float
    runs: int
    bytes_per_rank: int


def record(
    samples_s: Iterable[float],
    *,
    workload: str,
    elements: int,
    dtype: str,
    ranks: int,
    name: str,
    library: str,
    schedule: str,
    bytes_per_rank: int,
) -> Record:
    """Summarise the samples, in seconds per step, of one engine at one size."""
    samples_ms = np.array(list(samples_s)) * 1e3
    p10_ms, median_ms, p90_ms = np.percentile(samples_ms, (10, 50, 90)).tolist()
    return Record(
        workload=workload,
        elements=elements,
        dtype=dtype,
        ranks=ranks,
        name=name,
        library=library,
        schedule=schedule,
        median_ms=median_ms,
        p10_ms=p10_ms,
        p90_ms=p90_ms,
        runs=samples_ms.size,
        bytes_per_rank=bytes_per_rank,
    )


def write_json(
    path: Path,
    *,
    machine: Mapping[str, object],
    versions: Mapping[str, str],
    records: Iterable[Record],
    **others: Iterable[Any],
) -> None:
    """Write `{"machine": .., "versions": .., "records": [..]}` and other lists."""
    report: dict[str, object] = {
        "machine": dict(machine),
        "versions": dict(versions),
        "records": [asdict(entry) for entry in records],
    }
    for name, entries in others.items():
        report[name] = [asdict(entry) for entry in entries]
    path.write_text(json.dumps(report, indent=1) + "\n")

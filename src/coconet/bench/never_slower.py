"""Is coconet never slower: every optimizer, dtype and size beside every library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path

import numpy as np

from coconet.bench.columns import header, line
from coconet.bench.engines.table import BASELINES, exchanged_dtype
from coconet.bench.engines.task import DTYPES
from coconet.bench.machine import machine, versions
from coconet.bench.record import Record, write_json
from coconet.bench.workload import Row, check_engines, present, rows

__all__ = ["LEAST_RATIO", "Ratio", "median_bound", "run_never_slower"]

LEAST_RATIO = 0.95
_OURS = "coconet"
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long a baseline takes as coconet, from one size's turns.

    Attributes
      dtype           of coconet's gradient and parameter; baseline_dtype: of theirs
      median          of the ratios of turns: both ran within one turn, side by side
      lower_bound     of that median, with 95 % confidence
      is_never_slower lower_bound is at least 0.95
    """

    workload: str
    dtype: str
    elements: int
    ranks: int
    baseline: str
    baseline_dtype: str
    median: float
    lower_bound: float
    is_never_slower: bool


def run_never_slower(
    ranks: int,
    sizes: Sequence[int],
    json_path: Path | None = None,
    *,
    workloads: Sequence[str] = tuple(BASELINES),
    dtypes: Sequence[str] = DTYPES,
    engines: Sequence[str] | None = None,
    time_box_s: float = 20.0,
) -> list[Ratio]:
    """Time coconet beside every baseline, print the bounds, write ratios and records.

    engines: only these baselines.  Writes the JSON after every size.
    Raises  as run_workload
    """
    check_engines("never-slower", engines or ())
    ratios: list[Ratio] = []
    records: list[Record] = []
    print("lower 95 % bound of the median of baseline / coconet, turn by turn")
    for workload in workloads:
        baselines = BASELINES[workload]
        names = present([_OURS, *(n for n in baselines if n in (engines or baselines))])
        for dtype in dtypes:
            print(f"\n{workload}, {dtype}, {ranks} ranks; {_OURS} in ms")
            print(header(names, dtype))
            for row in rows(
                workload, names, ranks, sizes, dtype=dtype, time_box_s=time_box_s
            ):
                found = _ratios(row, workload, dtype, ranks)
                bounds = [ratio.lower_bound for ratio in found]
                print(line(row.elements, [row.records[0].median_ms, *bounds]))
                ratios += found
                records += row.records
                if json_path is not None:
                    write_json(
                        json_path,
                        machine=machine(),
                        versions=versions(),
                        records=records,
                        ratios=ratios,
                    )
    print(_verdict(ratios), flush=True)
    return ratios


def median_bound(samples: Sequence[float], *, confidence: float = _CONFIDENCE) -> float:
    """Return a lower bound of the median that the samples were drawn around.

    The largest order statistic that is above the true median with probability at most
    1 - confidence, whatever the distribution; with fewer than 5 samples there is none.
    """
    n, below, chance = len(samples), 0, 0.0
    while below < n:
        chance += comb(n, below) / 2**n
        if chance > 1 - confidence:
            break
        below += 1
    return sorted(samples)[below - 1] if below else 0.0


def _ratios(row: Row, workload: str, dtype: str, ranks: int) -> list[Ratio]:
    ours = row.samples_s[_OURS]
    found: list[Ratio] = []
    for name, theirs in row.samples_s.items():
        if name == _OURS:
            continue
        by_turn = [their / our for their, our in zip(theirs, ours, strict=True)]
        bound = median_bound(by_turn)
        found.append(
            Ratio(
                workload=workload,
                dtype=dtype,
                elements=row.elements,
                ranks=ranks,
                baseline=name,
                baseline_dtype=exchanged_dtype(name, dtype),
                median=float(np.median(by_turn)),
                lower_bound=bound,
                is_never_slower=bound >= LEAST_RATIO,
            )
        )
    return found


def _verdict(ratios: Sequence[Ratio]) -> str:
    slower = [ratio for ratio in ratios if not ratio.is_never_slower]
    lines = [
        f"\nat least {LEAST_RATIO} in {len(ratios) - len(slower)} of {len(ratios)}"
        f" comparisons{'; not in' if slower else ''}"
    ]
    lines += [
        f"  {ratio.workload} {ratio.dtype} {ratio.elements} beside {ratio.baseline}: "
        f"bound {ratio.lower_bound:.3f}, median {ratio.median:.3f}"
        for ratio in slower
    ]
    return "\n".join(lines)

"""Run many random cases by hand: python tests/fuzz/many.py FIRST COUNT [RANKS].

Without RANKS each case runs on simulated ranks, else compiled, on so many processes.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cases

from coconet.runtime.testing import run_ranks

CHUNK = 20
"""How many compiled cases share a world."""


def simulated(seeds: list[int]) -> Iterator[str]:
    """Yield what is wrong with cases on simulated ranks."""
    for seed in seeds:
        case = f"seed {seed}"
        try:
            case = cases.draw(seed)
            yield from (f"{found}\n{case}" for found in cases.differences(case))
        except Exception:
            yield f"{traceback.format_exc()}\n{case}"


def compiled(seeds: list[int], ranks: int) -> Iterator[str]:
    """Yield what is wrong with compiled cases."""
    for start in range(0, len(seeds), CHUNK):
        chunk = seeds[start : start + CHUNK]
        outcome = run_ranks(ranks, cases.check_compiled, chunk, timeout_s=400)
        for result, stderr in zip(outcome.results, outcome.stderr, strict=True):
            yield from [f"from seed {chunk[0]}: {stderr}"] if result is None else result
        print(f"done up to seed {chunk[-1]}", flush=True)


def main() -> None:
    """Print what is wrong, and how many cases ran."""
    first, count, *ranks = map(int, sys.argv[1:])
    began, wrong = time.monotonic(), 0
    seeds = list(range(first, first + count))
    for found in compiled(seeds, *ranks) if ranks else simulated(seeds):
        wrong += 1
        print(f"WRONG {found}\n", flush=True)
    where = f"compiled on {ranks[0]} ranks" if ranks else "simulated"
    took_s = time.monotonic() - began
    print(f"{count} cases from seed {first} {where}: {wrong} wrong, {took_s:.0f} s")


if __name__ == "__main__":
    main()

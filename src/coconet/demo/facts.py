"""What a run of the demo found: by rank, then as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coconet.demo.listing import Listing

__all__ = ["Facts", "RankReport", "Side", "Spread", "Trace", "sides"]


@dataclass(frozen=True, slots=True)
class Trace:
    """What one side did on one rank.

    losses       before each step, on this rank's own batch
    iteration_s  seconds of each whole iteration
    alone_s      seconds of forward+backward alone, at `alone_steps`
    state_bytes  of the optimizer's state on this rank
    digest       sha256 of the parameters after the last step
    """

    losses: list[float]
    iteration_s: list[float]
    alone_steps: list[int]
    alone_s: list[float]
    state_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class RankReport:
    """What one rank says at its end; `traces` has our side, then the reference.

    task      what both sides did, in words
    is_exact  whether the reference is the interpreter, whose bits ours must have
    """

    task: str
    is_exact: bool
    names: tuple[str, str]
    traces: tuple[Trace, Trace]
    listing: Listing
    notes: list[str]

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(path: Path) -> RankReport:
        """Return what `write` wrote."""
        fields: dict[str, Any] = json.loads(path.read_text())
        ours, theirs = (Trace(**trace) for trace in fields.pop("traces"))
        listing = Listing(**fields.pop("listing"))
        first, second = fields.pop("names")
        return RankReport(
            names=(first, second), traces=(ours, theirs), listing=listing, **fields
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """Times of many turns, in milliseconds."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    runs: int

    @staticmethod
    def of(samples_s: Iterable[float]) -> Spread:
        """Summarise samples in seconds; at least one."""
        samples_ms = np.array(list(samples_s)) * 1e3
        p10, median, p90 = np.percentile(samples_ms, (10, 50, 90)).tolist()
        return Spread(median, p10, p90, samples_ms.size)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that ran beside each other, over all ranks.

    losses       mean over ranks, by step
    iteration    a whole iteration, until the last rank has ended it
    alone        forward+backward alone, likewise
    rest         iteration minus alone, taken in the same turn
    state_bytes  of the optimizer, by rank
    digests      of the parameters at the end, by rank
    """

    name: str
    losses: list[float]
    iteration: Spread
    alone: Spread
    rest: Spread
    state_bytes: list[int]
    digests: list[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the report shows.

    wall_s  seconds that the whole run took
    """

    task: str
    is_exact: bool
    ranks: int
    ours: Side
    reference: Side
    listing: Listing
    notes: list[str]
    machine: dict[str, object]
    versions: dict[str, str]
    wall_s: float


def sides(reports: Sequence[RankReport], *, warm: int) -> tuple[Side, Side]:
    """Join what the ranks say; the first `warm` steps are not timed."""
    first, second = (
        _joined(name, [report.traces[number] for report in reports], warm=warm)
        for number, name in enumerate(reports[0].names)
    )
    return first, second


def _joined(name: str, traces: Sequence[Trace], *, warm: int) -> Side:
    # A step ends on all ranks together, so that its time is the slowest rank's.
    iteration_s = np.max([trace.iteration_s for trace in traces], axis=0)
    alone_s = np.max([trace.alone_s for trace in traces], axis=0)
    return Side(
        name=name,
        losses=np.mean([trace.losses for trace in traces], axis=0).tolist(),
        iteration=Spread.of(iteration_s[warm:]),
        alone=Spread.of(alone_s),
        rest=Spread.of(iteration_s[traces[0].alone_steps] - alone_s),
        state_bytes=[trace.state_bytes for trace in traces],
        digests=[trace.digest for trace in traces],
    )

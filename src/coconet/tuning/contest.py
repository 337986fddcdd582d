"""From a search space to one winner: estimate, check, compile, time, report.

Every rank runs this alike: what it decides follows from the program and from messages
that all ranks have seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec

from coconet.backends.c import compile_plan
from coconet.backends.c.inboxes import inbox_rows
from coconet.backends.c.refuse import refusing
from coconet.backends.c.words import Knobs
from coconet.errors import (
    CompileError,
    ResourceError,
    ScheduleError,
    UnsupportedError,
    VerificationError,
)
from coconet.lower import lower
from coconet.plan import Plan
from coconet.runtime.exchange import Exchange
from coconet.runtime.world import World
from coconet.tuning.cost import Estimate, Machine, estimate, keep_best
from coconet.tuning.decision import Decision
from coconet.tuning.halving import TURNS, Race, Timing, race
from coconet.tuning.measure import (
    Arguments,
    Entrant,
    Stopwatch,
    Track,
    knobs_text,
    variants,
)
from coconet.tuning.progress import Progress, noted_interrupt
from coconet.tuning.report import Report, Row, time_text
from coconet.tuning.request import Request
from coconet.tuning.search import check, search

__all__ = ["Contest"]

BASELINE = 0
"""The number of the schedule without kernels of several values: the search gives it
first, the program as written or, with state in pieces, the nearest to it."""

_LATE = "not timed: out of time"


class Contest:
    """One tuning; `decide` is called once, on every rank."""

    def __init__(
        self,
        request: Request,
        world: World,
        exchange: Exchange,
        watch: Stopwatch,
        progress: Progress,
    ) -> None:
        """Search the space, and estimate what is in it."""
        self._request, self._world, self._exchange = request, world, exchange
        self._watch, self._progress = watch, progress
        self._found = search(
            request.program, slice_state=request.slice_state, limit=request.limit
        )
        self._schedules = self._found.schedules
        self._skipped: dict[int, str] = {}
        self._plans: dict[int, Plan] = {}
        self._estimates: dict[int, Estimate] = {}
        self._times_s: dict[Entrant, list[float]] = {}

    def decide(self) -> Decision:
        """Return the winner, with the report of everything.

        Raises ResourceError if the baseline does not fit into the memory.
        """
        with contextlib.closing(self._progress):
            winner = self._find_winner()
        schedule, report = self._schedules[winner.number], self._report(winner)
        return Decision(schedule, winner.knobs, report)

    def _find_winner(self) -> Entrant:
        self._estimate()
        self._check()
        arguments = Arguments(self._world, self._request.sizes, self._request.scalars)
        track = Track(
            self._world,
            self._exchange,
            self._watch,
            plans=self._plans,
            arguments=arguments,
            sizes=self._request.sizes,
        )
        self._watch.lap()
        with noted_interrupt() as self._watch.has_interrupt:
            return self._time(track)

    def _estimate(self) -> None:
        """Lower every schedule; skip all but the most promising ones."""
        ranks, sizes = self._world.size, self._request.sizes
        for number, schedule in enumerate(self._schedules):
            plan = self._plans[number] = lower(schedule.result, ranks)
            self._estimates[number] = estimate(plan, ranks, sizes, Machine())
        kept = dict(keep_best(list(self._estimates.items())))
        for number in self._plans.keys() - kept.keys():
            self._skipped[number] = "not timed: the estimate"

    def _check(self) -> None:
        """Check and compile what is left; each rank takes its share of it."""
        world = self._world
        self._progress.show(f"tuning {self._request.program.name}: checking schedules")
        mine = refusing(world, self._request.program.name, self._check_share)
        for reasons in self._exchange.all_gather(msgspec.json.encode(mine)):
            self._skipped |= msgspec.json.decode(reasons, type=dict[int, str])

    def _check_share(self) -> dict[int, str]:
        reasons: dict[int, str] = {}
        for number in list(self._candidates())[self._world.rank :: self._world.size]:
            try:
                check(self._schedules[number])
                compile_plan(self._plans[number], self._world)
            except (
                ScheduleError,
                UnsupportedError,
                CompileError,
                VerificationError,
                ResourceError,
            ) as error:
                if number == BASELINE:
                    raise
                reasons[number] = f"{type(error).__name__}: {error.what}"
        return reasons

    def _candidates(self) -> Iterator[int]:
        """Yield what is still to be timed, the baseline first."""
        left = self._plans.keys() - self._skipped.keys() - {BASELINE}
        yield BASELINE
        yield from sorted(left, key=lambda number: self._estimates[number].seconds)

    def _time(self, track: Track) -> Entrant:
        """Race the schedules, then the knobs of the best two; return the winner.

        Other knobs win only if their time is surely below that of the usual ones.
        """
        first = self._race(track, [Entrant(number) for number in self._candidates()])
        if self._is_late() or self._is_stopped():
            return first.order[0]
        leader_s = Timing.of(first.times_s[first.order[0]])
        finalists = [
            entrant
            for entrant in first.order[:2]
            if Timing.of(first.times_s[entrant]).low_s <= leader_s.high_s
        ]
        second = self._race(track, [*finalists, *self._variants(finalists)])
        usual = min(finalists, key=lambda entrant: self._timing(entrant).median_s)
        best = second.order[0]
        mine, its = self._timing(best), self._timing(usual)
        is_proven = mine.turns >= TURNS[0] and mine.high_s < its.low_s
        return best if is_proven else usual

    def _variants(self, finalists: Sequence[Entrant]) -> Iterator[Entrant]:
        threads = self._exchange.all_gather(str(self._world.threads).encode())
        for entrant in finalists:
            if entrant.number == BASELINE:  # each binding holds memory for every value
                continue
            plan, sizes = self._plans[entrant.number], self._request.sizes
            rows = inbox_rows(plan, sizes, entrant.knobs, self._world.rank)
            most = min(map(int, threads))
            for knobs in variants(entrant.knobs, most, by_inbox=bool(rows)):
                yield Entrant(entrant.number, knobs)

    def _race(self, track: Track, wanted: Sequence[Entrant]) -> Race[Entrant]:
        entrants: list[Entrant] = []
        for entrant in wanted:
            if reason := track.prepare(entrant):
                self._skip(entrant, reason)
            else:
                entrants.append(entrant)
        found = race(
            entrants,
            lambda entrant: self._turn(track, entrant),
            is_late=self._is_late,
            is_stopped=self._is_stopped,
            drop=track.drop,
        )
        for entrant in entrants:
            track.drop(entrant)
        for entrant, times_s in found.times_s.items():
            self._times_s.setdefault(entrant, []).extend(times_s)
        return found

    def _timing(self, entrant: Entrant) -> Timing:
        """Return what all turns of an entrant came to."""
        return Timing.of(self._times_s[entrant])

    def _skip(self, entrant: Entrant, reason: str) -> None:
        if entrant.number == BASELINE:
            raise ResourceError(
                "the program cannot be timed without kernels of several values",
                got=reason,
                need="memory for all its values",
                fix="tune at smaller sizes",
            )
        if entrant not in self._times_s and entrant.knobs == Knobs():
            self._skipped[entrant.number] = reason

    def _turn(self, track: Track, entrant: Entrant) -> float:
        spent_s = track.turn(entrant)
        self._progress.show(
            f"tuning {self._request.program.name}: {self._watch.elapsed_s:.1f} of "
            f"{self._request.time_box_s:g} s, {self._name(entrant)} "
            f"{time_text(spent_s)}"
        )
        return spent_s

    def _is_late(self) -> bool:
        return self._watch.elapsed_s >= self._request.time_box_s

    def _is_stopped(self) -> bool:
        return self._watch.was_interrupted

    def _name(self, entrant: Entrant) -> str:
        number = entrant.number
        if number == BASELINE:
            return "unfused" if self._schedules[number].steps else "as_written"
        return f"schedule {number}"

    def _report(self, winner: Entrant) -> Report:
        found = self._found
        timings = {entrant: self._timing(entrant) for entrant in self._times_s}
        rows: list[Row] = []
        for entrant in sorted(
            timings, key=lambda e: (e != winner, timings[e].median_s)
        ):
            ratio = timings[entrant].median_s / timings[winner].median_s
            verdict = "chosen" if entrant == winner else f"{ratio:.2f}x the time"
            if ratio < 1:
                verdict += ", but not surely"
            rows.append(self._row(entrant, verdict, timings[entrant]))
        timed = {entrant.number for entrant in timings}
        rows += [
            self._row(Entrant(number), self._skipped.get(number, _LATE), None)
            for number in range(len(self._schedules))
            if number not in timed
        ]
        found = self._found
        return Report(
            program=self._request.program.name,
            ranks=self._world.size,
            sizes=dict(self._request.sizes),
            rows=tuple(rows),
            explored=found.explored,
            was_capped=found.was_capped,
            refused=found.refused,
            wall_s=self._watch.elapsed_s,
            was_interrupted=self._is_stopped(),
            was_late=self._is_late(),
        )

    def _row(self, entrant: Entrant, verdict: str, timing: Timing | None) -> Row:
        schedule = self._schedules[entrant.number]
        return Row(
            name=self._name(entrant),
            steps=tuple(map(str, schedule.steps)),
            knobs=knobs_text(entrant.knobs),
            estimate_s=self._estimates[entrant.number].seconds,
            median_s=timing and timing.median_s,
            low_s=timing and timing.low_s,
            high_s=timing and timing.high_s,
            turns=timing.turns if timing else 0,
            verdict=verdict,
        )

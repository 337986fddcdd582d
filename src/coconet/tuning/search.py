"""Search: every schedule worth measuring, breadth first, each of them once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from coconet.errors import ScheduleError, UnsupportedError
from coconet.ir import Program, Sliced, Value, said
from coconet.lower import lower
from coconet.ops import AllGather
from coconet.schedule import (
    Dead,
    Draft,
    Fuse,
    Reorder,
    Schedule,
    SliceState,
    Split,
    Transform,
)
from coconet.schedule.legality import descendants
from coconet.tuning.canonical import canonical
from coconet.tuning.regions import Kernels, Region, is_pointwise, regions

__all__ = ["Found", "check", "search"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    schedules   first the program as written; with inputs kept in pieces, the first one
                without kernels that keeps them so
    explored    how many programs were looked at, with and without kernels
    was_capped  whether there are more schedules than `limit`, or than were tried
    refused     steps that were not legal, and why
    regions     how many regions the program's pointwise values make
    """

    schedules: tuple[Schedule, ...]
    explored: int
    was_capped: bool
    refused: tuple[tuple[str, str], ...]
    regions: int


def search(
    program: Program,
    *,
    slice_state: Sequence[str] = (),
    limit: int = 64,
    region_limit: int = 64,
) -> Found:
    """Return the schedules of a program that may be the fastest: see docs/tuning.md.

    slice_state   inputs that every schedule keeps in pieces
    limit         how many schedules at most
    region_limit  how many pointwise values at most make one region

    Raises GroupError, UnsupportedError: no plan can be made of the program;
    ScheduleError: no schedule keeps all of `slice_state` in pieces; ValueError: a limit
    is not positive.
    """
    for name, given in (("limit", limit), ("region_limit", region_limit)):
        if type(given) is not int or given < 1:
            raise ValueError(f"{name} is a positive integer, got {given!r}")
    ranks = next((group.size for group in program.groups if group.size), 2)
    lower(program, ranks)
    return _Search(program, tuple(slice_state), limit, region_limit, ranks).run()


class _Search:
    def __init__(
        self,
        program: Program,
        slice_state: tuple[str, ...],
        limit: int,
        region_limit: int,
        ranks: int,
    ) -> None:
        self.program = program
        self.slice_state = slice_state
        self.limit = limit
        self.region_limit = region_limit
        self.ranks = ranks
        self.explored = 0
        self.was_capped = False
        self.found: dict[str, Schedule] = {}
        self.refused: dict[str, str] = {}

    def run(self) -> Found:
        unfused = list(islice(self._unfused(), self.limit + 1))
        self.was_capped = len(unfused) > self.limit
        bases = [base for s in unfused if (base := self._with_state_in_pieces(s))]
        if not bases:
            raise ScheduleError(
                f"no schedule of {self.program.name!r} keeps these inputs in pieces",
                got=", ".join(self.slice_state),
                need="inputs used in slices only, once the program is reordered",
                fix="; ".join(f"{step}: {why}" for step, why in self.refused.items()),
            )
        self._add(bases[0])
        waiting = deque(self._fused(base) for base in bases)
        while waiting and len(self.found) <= self.limit:
            made = next(waiting[0], None)
            if made is None:
                waiting.popleft()
                continue
            waiting.rotate(-1)
            self._add(made)
        schedules = tuple(self.found.values())
        return Found(
            schedules=schedules[: self.limit],
            explored=self.explored,
            was_capped=self.was_capped or len(schedules) > self.limit,
            refused=tuple(self.refused.items()),
            regions=self._count_regions(),
        )

    def _unfused(self) -> Iterator[Schedule]:
        """Yield every way to split and reorder, breadth first, each once."""
        waiting = deque([iter([Schedule(self.program, (), self.program)])])
        seen: set[str] = set()
        while waiting:
            for schedule in waiting.popleft():
                text = canonical(schedule.result)
                if text not in seen:
                    seen.add(text)
                    self.explored += 1
                    yield schedule
                    waiting.append(self._moved_further(schedule))

    def _moved_further(self, schedule: Schedule) -> Iterator[Schedule]:
        """Yield what one more choice makes of a schedule; first, everything at once."""
        program = schedule.result
        reductions = {step.target: None for step in Split.candidates(program)}
        whole = schedule
        for target in reductions:
            *_, whole = _ways_to_split(whole, target)
        yield whole
        for target in reductions:
            yield from _ways_to_split(schedule, target)
        reorders = {step.gather: step for step in Reorder.candidates(program)}
        for gather in program.values_of(AllGather):
            if gather.name in reorders:
                yield _extended(schedule, reorders[gather.name])
            elif program.users(gather):
                self._explain_reorder(program, gather)

    def _explain_reorder(self, program: Program, gather: Value) -> None:
        ends = (v for v in descendants(program, gather) if not program.users(v))
        try:
            Reorder(gather.name, tuple(v.name for v in ends)).check(program)
        except ScheduleError as error:
            self.refused.setdefault(f"reorder({gather.name})", error.what)

    def _with_state_in_pieces(self, schedule: Schedule) -> Schedule | None:
        """Return the schedule with the user's inputs in pieces and nothing dead."""
        for name in self.slice_state:
            try:
                schedule = _extended(schedule, SliceState(name))
            except ScheduleError as error:
                self.refused[f"slice_state({name})"] = error.what
                return None
        while dead := next(Dead.candidates(schedule.result), None):
            schedule = _extended(schedule, dead)
        return schedule

    def _fused(self, schedule: Schedule) -> Iterator[Schedule]:
        """Yield the schedule with every maximal choice of kernels."""
        program = schedule.result
        kernels = Kernels(program, regions(program, self.region_limit))
        for partition in kernels.maximal():
            for left, right, reason in kernels.refused(partition):
                step = f"fuse({_said(left)} | {_said(right)})"
                self.refused.setdefault(step, reason)
            members = (m for m in kernels.members(partition) if len(m) > 1)
            steps = (Fuse(tuple(value.name for value in m)) for m in members)
            yield _extended(schedule, *steps)
        self.was_capped |= kernels.was_capped

    def _add(self, schedule: Schedule) -> None:
        """Keep a schedule that no other equals and that can be lowered."""
        self.explored += 1
        text = canonical(schedule.result)
        if text not in self.found:
            try:
                lower(schedule.result, self.ranks)
            except UnsupportedError as error:
                self.refused[str(schedule.steps[-1])] = error.what
            else:
                self.found[text] = schedule

    def _count_regions(self) -> int:
        found = regions(self.program, self.region_limit)
        return sum(is_pointwise(region[0]) for region in found)


def _ways_to_split(schedule: Schedule, target: str) -> Iterator[Schedule]:
    """Yield an all-reduce split by FLAT; then split and what follows moved to pieces.

    The latter by FLAT, and by every cut that moves more than those before it.
    """
    most = 0
    for split in Split.candidates(schedule.result):
        if split.target == target:
            halves = _extended(schedule, split)
            if split == Split(target):
                yield halves
            for reorder in Reorder.candidates(halves.result):
                if reorder.gather == target:
                    moved = _extended(halves, reorder)
                    layouts = (value.type.layout for value in moved.result.values)
                    pieces = sum(isinstance(layout, Sliced) for layout in layouts)
                    if pieces > most:
                        most = pieces
                        yield moved


def _extended(schedule: Schedule, *steps: Transform) -> Schedule:
    """Return a schedule with more steps; raises ScheduleError if one is not legal."""
    draft = Draft(schedule.result)
    for step in steps:
        draft.step(step)
    return Schedule(schedule.program, (*schedule.steps, *steps), draft.program)


def _said(values: Region) -> str:
    named = [value for value in values if not value.name.startswith("_")]
    return said(*(named or values[-1:]))


def check(schedule: Schedule, seed: int = 0) -> None:
    """Compare a schedule with its program, on simulated ranks and at uneven sizes.

    seed  of the arguments and of the order in which the ranks run

    Raises VerificationError at the first bit that differs.
    """
    from coconet.verification import verify_simulated

    dims = schedule.program.dims
    fixed = [group.size for group in schedule.program.groups if group.size]
    primes = (197,) if len(dims) == 1 else (7, 13, 5, 3, 11)
    sizes = [
        {d.name: n for d, n in zip(dims, cycle(primes))},
        {d.name: 1 for d in dims},
    ]
    report = verify_simulated(
        {"schedule": schedule}, ranks=fixed or (2, 3), sizes=sizes, seeds=1, seed=seed
    )
    report.raise_if_wrong()

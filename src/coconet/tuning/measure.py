"""Timing candidates on all ranks at once, on tensors of the tuner's own."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from coconet.backends.arguments import stored_shape
from coconet.backends.c import compile_plan
from coconet.backends.c.compile import CompiledStep
from coconet.backends.c.refuse import refusing
from coconet.backends.c.words import Knobs
from coconet.errors import CompileError, RanksDisagree, ResourceError, UnsupportedError
from coconet.plan import Plan, Role
from coconet.runtime.exchange import Exchange
from coconet.runtime.world import World

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Arguments",
    "Clock",
    "Entrant",
    "Stopwatch",
    "Track",
    "knobs_text",
    "variants",
]

Clock = Callable[[], float]
"""Seconds since any moment."""

TURN_S = 0.02
"""Of calls in one turn, where one call takes less."""

MOST_CALLS = 64
"""Of one turn; after as many, what is updated is filled again: it shall not decay."""

COLD_S = 0.01
"""A call that takes longer does not profit from a call before it."""

_LAP = struct.Struct("dd?")


@dataclass(frozen=True, slots=True)
class Entrant:
    """A schedule, by its number among the candidates, with knobs."""

    number: int
    knobs: Knobs = dataclasses.field(default_factory=Knobs)


def variants(
    knobs: Knobs, most_threads: int, *, by_inbox: bool = False
) -> tuple[Knobs, ...]:
    """Return other knobs that may be faster, each different in one number.

    by_inbox says that peers read arguments in inboxes, and could read them in place.
    """
    changes: list[dict[str, int]] = [
        {"block_elements": 2048},
        {"block_elements": 8192},
        {"stream_bytes": 0},
        {"stream_bytes": 1 << 40},
    ]
    if by_inbox:
        changes.append({"inbox_bytes": 0})
    if most_threads > 1:
        doubled = (1 << power for power in range(most_threads.bit_length()))
        changes += [{"threads": number} for number in doubled]
    return tuple(dataclasses.replace(knobs, **change) for change in changes)


def knobs_text(knobs: Knobs) -> str:
    """Return the numbers that differ from the defaults."""
    usual = dataclasses.asdict(Knobs())
    mine = dataclasses.asdict(knobs).items()
    return " ".join(
        f"{name}={number}" for name, number in mine if usual[name] != number
    )


class Arguments:
    """Tensors in symmetric memory and scalars, for any plan of one program.

    Every element is 0.75 or 1, every scalar 0.5 or 1 unless it is given: nothing that
    an optimizer makes of them is NaN or denormal.
    """

    def __init__(
        self, world: World, sizes: Mapping[str, int], scalars: Mapping[str, Any]
    ) -> None:
        """Keep what the tensors depend on; they are made when a plan wants them."""
        self._world, self._sizes, self._given = world, sizes, scalars
        self._made: dict[tuple[str, tuple[int, ...]], NDArray[Any]] = {}

    def tensors(self, plan: Plan) -> dict[str, NDArray[Any]]:
        """Return the tensor arguments of a plan; plans of equal layouts share them.

        Raises SharedMemoryFull.
        """
        world, found = self._world, dict[str, "NDArray[Any]"]()
        for buffer in plan.with_role(Role.ARGUMENT):
            shape = stored_shape(buffer, self._sizes, world.rank, world.size)
            key = buffer.name, shape
            if key not in self._made:
                self._made[key] = world.pool.empty(shape, buffer.dtype.numpy)
                _fill(self._made[key])
            found[buffer.name] = self._made[key]
        return found

    def scalars(self, plan: Plan) -> dict[str, Any]:
        """Return the scalar arguments of a plan."""
        usual = {"f64": 0.5, "i64": 1}
        kinds = zip(plan.scalars, plan.scalar_kinds, strict=True)
        return {name: self._given.get(name, usual[kind]) for name, kind in kinds}

    def refill(self) -> None:
        """Give every tensor its first values again."""
        for array in self._made.values():
            _fill(array)


def _fill(array: NDArray[Any]) -> None:
    array.fill(1 if array.dtype.kind in "iub" else 0.75)


class Stopwatch:
    """Seconds as all ranks agree on them: those of the slowest.

    Fields  elapsed_s        since its making, as of the last lap
            was_interrupted  whether any rank had a Ctrl-C by then
    """

    def __init__(self, exchange: Exchange, clock: Clock) -> None:
        """Start."""
        self._exchange, self._clock = exchange, clock
        self._began_s = clock()
        self.elapsed_s = 0.0
        self.was_interrupted = False
        self.has_interrupt: Callable[[], bool] = lambda: False

    def time(self, run: Callable[[], object], calls: int) -> float:
        """Return seconds of one of so many calls, the same number on every rank."""
        before_s = self._clock()
        for _ in range(calls):
            run()
        return self.lap((self._clock() - before_s) / calls)

    def lap(self, spent_s: float = 0.0) -> float:
        """Tell the others a time; return the longest that any rank tells."""
        elapsed_s = self._clock() - self._began_s
        lap = _LAP.pack(spent_s, elapsed_s, self.has_interrupt())
        rows = [_LAP.unpack(row) for row in self._exchange.rows(lap)]
        times_s, elapsed, interrupts = zip(*rows, strict=True)
        self.elapsed_s = max(elapsed)
        self.was_interrupted |= any(interrupts)
        return max(times_s)


class Track:
    """Where entrants take their turns: bound to arguments, on every rank."""

    def __init__(
        self,
        world: World,
        exchange: Exchange,
        watch: Stopwatch,
        *,
        plans: Mapping[int, Plan],
        arguments: Arguments,
        sizes: Mapping[str, int],
    ) -> None:
        """Keep what turns need."""
        self._world, self._exchange, self._watch = world, exchange, watch
        self._plans, self._arguments, self._sizes = plans, arguments, sizes
        self._steps: dict[int, CompiledStep] = {}
        self._ready: dict[Entrant, Callable[[], object]] = {}
        self._last_s: dict[Entrant, float] = {}
        self._calls = 0

    def prepare(self, entrant: Entrant) -> str:
        """Bind an entrant on every rank; returns why it cannot run on some, or ""."""
        reason = ""
        self._last_s.pop(entrant, None)
        try:
            self._ready[entrant] = self._bind(entrant)
            # a rank that failed has arrived to say so, and all others learn it here
            self._exchange.rows(b"ready")
        except RanksDisagree:
            self.drop(entrant)
        except (UnsupportedError, CompileError, ResourceError, MemoryError) as error:
            self.drop(entrant)
            reason = str(error).partition("\n")[0]
        else:
            return ""
        reasons = [each.decode() for each in self._exchange.all_gather(reason.encode())]
        return next(filter(None, reasons))

    def _bind(self, entrant: Entrant) -> Callable[[], object]:
        """Bind; each step tells the other ranks if it fails here."""
        world, plan = self._world, self._plans[entrant.number]
        step = self._steps.get(entrant.number)
        if step is None:
            step = refusing(world, plan.name, compile_plan, plan, world)
            self._steps[entrant.number] = step
        step = step.with_knobs(entrant.knobs)
        tensors = refusing(world, plan.name, self._arguments.tensors, plan)
        bound = step.bind(sizes=self._sizes, **tensors)
        return partial(bound, **self._arguments.scalars(plan))

    def turn(self, entrant: Entrant) -> float:
        """Call an entrant a few times; returns seconds per call."""
        run, last_s = self._ready[entrant], self._last_s.get(entrant)
        if last_s is None or last_s < COLD_S:
            run()  # touches memory, warms caches
        if last_s is None:
            last_s = self._last_s[entrant] = self._watch.time(run, 1)
            if last_s >= TURN_S:
                return last_s
        calls = min(max(round(TURN_S / max(last_s, 1e-9)), 1), MOST_CALLS)
        self._last_s[entrant] = spent_s = self._watch.time(run, calls)
        self._calls += calls
        if self._calls >= MOST_CALLS:
            self._arguments.refill()
            self._calls = 0
        return spent_s

    def drop(self, entrant: Entrant) -> None:
        """Free the memory of an entrant."""
        self._ready.pop(entrant, None)

"""All ranks of a plan, two calls in a row, whatever their interleaving."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from coconet.errors import InternalError
from coconet.ir import Extent
from coconet.plan.buffer import Buffer, Role, Space
from coconet.plan.inbox import INBOXES, inboxed
from coconet.plan.instr import Arrive, Barrier, FenceStores, Fold, Instruction, Tile
from coconet.plan.plan import Plan
from coconet.plan.rounds import ROUND, Stage
from coconet.plan.verify.accesses import Access, Accesses
from coconet.plan.verify.clocks import Clocks
from coconet.plan.verify.elements import elements_text, span
from coconet.plan.verify.instances import Extents, instances, large_extents
from coconet.plan.verify.rounds import StagedTile, hidden

__all__ = ["verify_plan"]

CALLS = (1, 2, 3)
"""The second call shows what the first one leaves behind; the third uses the inboxes of
the first again."""


def verify_plan(plan: Plan) -> None:
    """Prove that a plan is right in every interleaving of its ranks.

    Every rank runs the same instructions and every wait is for all ranks, so no rank
    waits for ever.  The rest is proved at small sizes, with uneven and empty pieces,
    for calls in a row:

    order    of two ranks that touch one element, one of them writing, one does so
             before a wait that the other passes first; a store to a peer has happened
             once its rank's fence has
    return   between calls the caller on each rank may use all memory of this rank, so
             no peer does
    data     what is read was written in this call, or given; results and updated
             arguments are written whole, other arguments not at all
    bounds   every access lies in its buffer, and peers touch symmetric ones only
    loops    no element of a tile touches what another element of it writes

    It is proved where all arguments are symmetric; where all that may be private are;
    and where peers read from inboxes, if they can.  Where some are private, each buffer
    of a rank is as in one of the first two, and there is more order than in the first.

    Raises InternalError that names both steps, ranks, the buffer and the elements.
    """
    _check_waits(plan)
    large = large_extents(plan)
    try:
        _prove(plan, (*plan.dims, *large))
    except InternalError:
        if not large:
            raise
        # the plan may rely on how given extents are related: prove it as it is
        _prove(plan, plan.dims)


def _prove(plan: Plan, chosen: Sequence[Extent]) -> None:
    is_staging = any(isinstance(step, Tile) and step.staged for step in plan.body)
    for extents in instances(plan, chosen):
        _Proof(plan, extents).run()
        if is_staging:
            _Proof(hidden(plan), extents, in_rounds=True).run()
        if inboxed(plan):
            _Proof(plan, extents, by_inbox=True).run()


def _check_waits(plan: Plan) -> None:
    places = [n for n, step in enumerate(plan.body) if isinstance(step, Arrive)]
    if places != [0]:
        raise InternalError(
            f"plan {plan.name!r} does not begin with its one arrival",
            got=f"arrivals at {places}",
            need="[0]",
        )
    barriers = (step for step in plan.body if isinstance(step, Barrier))
    staged = (s for s in plan.body if isinstance(s, Tile) and s.staged)
    for step in (*barriers, *staged):
        if not 0 < step.where < len(plan.waits):
            raise InternalError(
                f"a wait of plan {plan.name!r} has no name for messages",
                got=step.where,
                need=f"1 to {len(plan.waits) - 1}",
            )


@dataclass(frozen=True, slots=True)
class _Event:
    """An access that happened: at which tick of which agent, and in which step."""

    agent: int
    tick: int
    access: Access
    step: str


@dataclass(slots=True)
class _Memory:
    """One rank's copy of a buffer.

    whole    all of its elements
    is_lent  it is the world's, and stays as it is between calls
    written  elements that were written in this call
    events   accesses that some rank may not know of yet
    """

    buffer: Buffer
    whole: int
    is_lent: bool = False
    written: int = 0
    events: list[_Event] = field(default_factory=list[_Event])


class _Proof:
    """One instance: its memory, and what happened to it."""

    def __init__(
        self,
        plan: Plan,
        extents: Extents,
        *,
        in_rounds: bool = False,
        by_inbox: bool = False,
    ) -> None:
        self.plan = plan
        self.call = 0
        self.inboxed = inboxed(plan) if by_inbox else ()
        self.extents = extents
        self.ranks = range(plan.ranks)
        self.clocks = Clocks(plan.ranks)
        self.accesses = Accesses(plan, extents)
        self.memories = {
            (buffer.name, rank): _Memory(
                buffer, span(0, self.accesses.numel(buffer, rank))
            )
            for buffer in plan.buffers
            for rank in self.ranks
        }
        tiles = (step for step in plan.body if isinstance(step, Tile))
        self.staged = {
            tile: StagedTile(plan, tile, extents)
            for tile in tiles
            if in_rounds and tile.staged
        }
        for tile in self.staged.values():
            for slots, size in tile.slots():
                for rank in self.ranks:
                    memory = _Memory(slots, span(0, size))
                    self.memories[slots.name, rank] = memory
        for name, rank, number in product(self.inboxed, self.ranks, range(INBOXES)):
            given = self.memories[name, rank]
            inbox = replace(given.buffer, name=_inbox(name, number), role=Role.SCRATCH)
            memory = _Memory(inbox, given.whole, is_lent=True)
            self.memories[inbox.name, rank] = memory

    def run(self) -> None:
        """Prove all calls."""
        self._return("for its caller before call 1", {Role.ARGUMENT})
        for call in CALLS if self.inboxed else CALLS[:2]:
            self.call = call
            for memory in self.memories.values():
                memory.written = 0
            for place, instruction in enumerate(self.plan.body):
                where = f"in instruction {place}{_name(instruction)} of call {call}"
                self._run(instruction, where)
            self._check_complete(call)
            self._return(f"for its caller after call {call}", set(Role))

    def _run(self, instruction: Instruction, step: str) -> None:
        match instruction:
            case Arrive():
                self._fill_inboxes(step)
                self._meet()
            case Barrier():
                if not self.inboxed:
                    self._meet()
            case FenceStores():
                self._fence()
            case Tile() if instruction in self.staged:
                self._run_rounds(self.staged[instruction], step)
            case Tile() | Fold():
                for rank in self.ranks:
                    self._access(rank, self.accesses.of(instruction, rank), step)

    def _run_rounds(self, tile: StagedTile, step: str) -> None:
        """Run a tile in lock-step; see plan/rounds.py."""
        count = tile.rounds.count
        for turn in range(count + 1 if count else 0):
            for what in ROUND:
                where = f"{step}, to {what.value} in round {turn}"
                match what:
                    case Stage.MEET:
                        self._meet()
                    case Stage.FENCE:
                        self._fence()
                    case Stage.COPY_IN if turn < count:
                        for rank in self.ranks:
                            self._access(
                                rank, tile.copied(rank, turn, into=True), where
                            )
                    case Stage.COPY_OUT if turn > 0:
                        for rank in self.ranks:
                            found = tile.copied(rank, turn - 1, into=False)
                            self._access(rank, found, where)
                    case Stage.COMPUTE if turn < count:
                        for rank in self.ranks:
                            found = tile.computed(self.accesses, rank, turn)
                            self._access(rank, found, where)
                    case _:
                        pass

    def _access(self, rank: int, found: Iterable[Access], step: str) -> None:
        accesses = tuple(self._redirected(access, rank) for access in found)
        self._check_loop(rank, accesses, step)
        for access in accesses:
            self._check_place(rank, access, step)
        self._touch(rank, accesses, step)

    def _redirected(self, access: Access, rank: int) -> Access:
        """Return an access where it happens, if that is a peer's inbox."""
        if access.owner == rank or access.buffer not in self.inboxed:
            return access
        return replace(access, buffer=_inbox(access.buffer, self.call % INBOXES))

    def _fill_inboxes(self, step: str) -> None:
        for name, rank in product(self.inboxed, self.ranks):
            whole = self.memories[name, rank].whole
            given = Access(name, rank, whole, False, None)
            inbox = _inbox(name, self.call % INBOXES)
            copied = replace(given, buffer=inbox, is_store=True)
            self._access(rank, (given, copied), f"{step}, to fill its inbox")

    def _meet(self) -> None:
        self.clocks.meet()
        for memory in self.memories.values():
            memory.events = [e for e in memory.events if self._is_open(e)]

    def _fence(self) -> None:
        for rank in self.ranks:
            self.clocks.fence(rank)

    def _is_open(self, event: _Event) -> bool:
        """Whether an event may still race with what some rank does."""
        return not all(
            self.clocks.knows(rank, event.agent, event.tick) for rank in self.ranks
        )

    def _return(self, step: str, roles: set[Role]) -> None:
        """Each rank's caller uses all that lies there, and may free the scratch."""
        for rank in self.ranks:
            memories = [m for (_, owner), m in self.memories.items() if owner == rank]
            uses = [
                Access(memory.buffer.name, rank, memory.whole, is_store, None)
                for memory in memories
                if memory.buffer.role in roles and not memory.is_lent
                for is_store in (False, True)
                if is_store or memory.buffer.role is not Role.SCRATCH
            ]
            self._touch(rank, uses, step)

    def _touch(self, rank: int, accesses: Sequence[Access], step: str) -> None:
        self.clocks.begin(rank)
        for access in accesses:
            if not access.elements:
                continue
            to_peer = access.is_store and access.owner != rank
            agent = self.clocks.agent(rank, to_peer=to_peer)
            event = _Event(agent, self.clocks.now(agent), access, step)
            memory = self.memories[access.buffer, access.owner]
            for earlier in memory.events:
                self._check_order(earlier, event)
            if access.is_store:
                memory.written |= access.elements
            else:
                self._check_written(memory, event)
            memory.events.append(event)

    def _check_order(self, earlier: _Event, event: _Event) -> None:
        a, b = earlier.access, event.access
        if not (a.is_store or b.is_store):
            return
        if self.clocks.knows(event.agent, earlier.agent, earlier.tick):
            return
        if both := a.elements & b.elements:
            raise self._error(
                f"two steps touch {_place(b)} in any order: {elements_text(both)}",
                got=f"{self._text(earlier)}; {self._text(event)}",
                need="a wait for all ranks between them, and a fence before that wait "
                "if the earlier one stores to a peer",
            )

    def _check_written(self, memory: _Memory, event: _Event) -> None:
        missing = event.access.elements & ~memory.written
        if missing and memory.buffer.role is not Role.ARGUMENT:
            raise self._error(
                f"{_place(event.access)} is read before it is written",
                got=f"{self._text(event)}: {elements_text(missing)}",
                need="a store in the same call",
            )

    def _check_complete(self, call: int) -> None:
        for (name, rank), memory in self.memories.items():
            is_result = memory.buffer.role is Role.RESULT
            missing = memory.whole & ~memory.written
            if missing and (is_result or name in self.plan.updated):
                raise self._error(
                    f"{name}[{rank}] is not written whole in call {call}",
                    got=f"nothing stores {elements_text(missing)}",
                    need="every element of results and updated arguments",
                )

    def _check_place(self, rank: int, access: Access, step: str) -> None:
        memory = self.memories[access.buffer, access.owner]
        buffer = memory.buffer
        who = f"rank {rank} {step}"
        if outside := access.elements & ~memory.whole:
            raise self._error(
                f"{_place(access)} has no such element",
                got=f"{who}: {elements_text(outside)}",
                need=f"one of {memory.whole.bit_length()}",
            )
        if access.owner != rank and buffer.space is not Space.SYMMETRIC:
            raise self._error(
                f"peers touch {_place(access)}, which is private",
                got=who,
                need="symmetric memory",
            )
        is_given = buffer.role is Role.ARGUMENT and buffer.name not in self.plan.updated
        if access.is_store and is_given:
            raise self._error(
                f"{_place(access)} is written, but is no updated argument",
                got=who,
                need=f"one of {sorted(self.plan.updated)}",
            )

    def _check_loop(self, rank: int, accesses: Sequence[Access], step: str) -> None:
        by_place: dict[str, list[Access]] = {}
        for access in accesses:
            by_place.setdefault(_place(access), []).append(access)
        for place, met in by_place.items():
            for a, b in combinations(met, 2):
                both = a.elements & b.elements
                if both and (a.is_store or b.is_store) and a.index != b.index:
                    raise self._error(
                        f"elements of one loop meet in {place}",
                        got=f"rank {rank} {step}: {elements_text(both)}",
                        need="each touches what no other one writes",
                    )

    def _text(self, event: _Event) -> str:
        does = "stores" if event.access.is_store else "loads"
        return f"rank {self.clocks.rank(event.agent)} {does} {event.step}"

    def _error(self, what: str, *, got: str, need: str) -> InternalError:
        sizes = ", ".join(f"{extent} = {n}" for extent, n in self.extents.items())
        where = f"plan {self.plan.name!r} on {self.plan.ranks} ranks"
        where += f" with {sizes}" if sizes else ""
        return InternalError(f"{where}: {what}", got=got, need=need)


def _name(instruction: Instruction) -> str:
    return f" ({instruction.name})" if isinstance(instruction, Tile) else ""


def _inbox(name: str, number: int) -> str:
    return f"{name}.inbox{number}"


def _place(access: Access) -> str:
    return f"{access.buffer}[{access.owner}]"

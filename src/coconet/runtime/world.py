"""The processes of a run, and this process's place among them."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from coconet.errors import (
    ConcurrentUse,
    InternalError,
    RendezvousError,
    ResourceError,
    RunError,
    UsedAfterFork,
)
from coconet.runtime import cgroup
from coconet.runtime.library import (
    FAREWELL_BYTES,
    MAX_RANKS,
    MAX_THREADS,
    library,
    restore_error,
)
from coconet.runtime.rendezvous import Member, meet, myself
from coconet.runtime.symmetric import SymmetricPool
from coconet.settings import Launch, launch, settings

if TYPE_CHECKING:
    import numpy

__all__ = ["World", "init", "world"]

SLICE_NS = 50_000_000  # an arrival returns to Python this often, for Ctrl-C
SPINS = 2000  # pauses before a waiter yields its core, about 0.1 ms
SPINS_CROWDED = 50  # the same when ranks share cores
SEGMENTS_BYTES = 1 << 45  # of address space, for the segments of all ranks
MOST_THREADS = 16  # that a rank takes unasked
LONGEST_S = 1e6  # of a wait, about 11 days: poll counts milliseconds in 31 bits

_State = Literal["open", "closed", "forked"]


class World:
    """The ranks of a run as this process sees them; see `init`.

    Fields  rank, size  this process's place, and how many there are
            run         the name of the run, unique on this host
            pool        this rank's symmetric memory
            address     of the C runtime's cc_world
            lock        held while a call runs, for ever once the world is closed
            timeout_s   how long a rank waits for its peers
            warn_s      after how long it says so
            threads     that a rank computes with, where nothing else is said
            pidfds      of the ranks
    """

    def __init__(self, place: Launch, *, timeout_s: float, warn_s: float) -> None:
        """Meet the other ranks.

        Units   seconds
        Blocks  until all ranks are there
        Raises  RendezvousError, SharedMemoryFull, NoCompiler, CompileError
                ValueError: timeout_s is not a time to wait, or a setting out of range
        """
        if not 0 <= place.rank < place.size <= MAX_RANKS:
            raise RendezvousError(
                "this process has no place in its run",
                got=f"rank {place.rank} of {place.size}",
                need=f"0 <= rank < size <= {MAX_RANKS}",
            )
        threads = settings().threads
        if threads > MAX_THREADS:
            raise ValueError(f"COCONET_THREADS is at most {MAX_THREADS}, got {threads}")
        if not 0 < timeout_s <= LONGEST_S:
            raise ValueError(f"a timeout is over 0 and at most 1e6 s, got {timeout_s}")
        self.rank, self.size, self.run = place.rank, place.size, place.run
        self.timeout_s, self.warn_s = timeout_s, warn_s
        self.lock = threading.Lock()
        self.state: _State = "open"
        reserve = settings().segment_bytes or _memory_bytes()
        self.pool = SymmetricPool(
            reserve=min(reserve, SEGMENTS_BYTES // place.size),
            header=library().cc_header_bytes(),
            rank=place.rank,
        )
        me = myself(place, segment=self.pool.fd, segment_bytes=self.pool.reserve)
        try:
            members = [me] if place.size == 1 else meet(me, timeout_s=timeout_s)
        except BaseException:
            me.close()
            self.pool.close()
            raise
        self.pidfds = tuple(member.pidfd for member in members)
        num_cpus = _num_cpus(members)
        self.threads = threads or _share(num_cpus, place.size)
        try:
            self.address = _create(self, members, is_crowded=place.size > num_cpus)
        except BaseException:
            self._release()
            raise
        finally:
            for member in members:
                os.close(member.segment)
        _hook_process()
        _worlds.add(self)

    def __repr__(self) -> str:
        """Say which rank of which run this is."""
        return f"World(rank={self.rank}, size={self.size}, run={self.run!r})"

    def refusal(self) -> RunError:
        """Return why the lock of this world cannot be had."""
        if self.state == "forked":
            return UsedAfterFork(
                "a forked child used the world of its parent",
                got=f"pid {os.getpid()}, a child of rank {self.rank}",
                fix="start the process with spawn instead of fork",
            )
        if self.state == "closed":
            return RunError(
                "this world is closed", fix="coconet.init() makes a new one"
            )
        return ConcurrentUse(
            "two threads run programs of one group at once",
            need="one call at a time, in the same order on every rank",
            fix="guard the calls with a lock of your own",
        )

    def close(self) -> None:
        """Leave the run; the other ranks fail if they wait for this one later.

        Arrays in symmetric memory stay valid.
        """
        if self.state != "open":
            return
        if not self.lock.acquire(blocking=False):
            raise self.refusal()
        self.state = "closed"
        library().cc_world_leave(self.address)
        library().cc_world_destroy(self.address)
        _worlds.discard(self)
        self._release()

    def _release(self) -> None:
        for pidfd in self.pidfds:
            os.close(pidfd)
        self.pool.close()

    def read(self, rank: int, offset: int, into: numpy.ndarray[Any, Any]) -> None:
        """Copy bytes of a rank's segment into a contiguous array.

        What lies there, and that nobody writes it now, is the caller's to know: between
        two calls a rank's arguments rest until this rank arrives at the next one.

        Units   offset: bytes, as the pool of that rank counts them
        Raises  RunError if the world is closed, UsedAfterFork
        """
        if self.state != "open":
            raise self.refusal()
        base: int = library().cc_world_base(self.address, rank)
        ctypes.memmove(into.ctypes.data, base + offset, into.nbytes)

    def start_threads(self, num_threads: int) -> None:
        """Have this many threads for kernels, the calling one included.

        Raises  ValueError: not a number of threads
                ResourceError: the system refuses more
        """
        if not 1 <= num_threads <= MAX_THREADS:
            raise ValueError(
                f"a rank has 1 to {MAX_THREADS} threads, got {num_threads}"
            )
        error = library().cc_world_threads(self.address, num_threads)
        if error:
            raise ResourceError(
                f"the system refused {num_threads} threads on rank {self.rank}",
                got=os.strerror(error),
                fix="set COCONET_THREADS=1, or raise the limit (ulimit -u, pids.max)",
            )

    def raise_interrupt(self) -> None:
        """Raise what a signal's handler raised while this rank waited in a barrier."""
        held = (ctypes.c_void_p * 3)()
        if library().cc_world_interrupt(self.address, held):
            restore_error(*held)

    def leave(self) -> None:
        """Tell the peers that this process ends; free nothing that may be in use."""
        if self.state == "open":
            library().cc_world_leave(self.address)

    def say_raised(self, error: BaseException) -> None:
        """End the run on all ranks: this one raised `error` and cannot go on."""
        if self.state == "open":
            text = f"{type(error).__name__}: {error}".encode("ascii", "replace")
            library().cc_world_raised(self.address, text[: FAREWELL_BYTES - 1])

    def forget_parent(self) -> None:
        """In a forked child: let no call through."""
        if self.state == "open":
            self.state = "forked"
            self.lock.acquire(blocking=False)


def init(timeout_s: float | None = None) -> World:
    """Return the world of this process; the first call meets the other ranks.

    `coconet run`, `spawn` or torchrun say which ranks there are; without them this
    process is alone.  timeout_s, in seconds, bounds every wait for another rank; it
    defaults to COCONET_TIMEOUT and counts only in the first call.

    Raises RendezvousError, SharedMemoryFull, NoCompiler, CompileError, UsedAfterFork.
    """
    current = _default[-1] if _default else None
    if current is not None and current.state == "forked":
        raise current.refusal()
    if current is None or current.state == "closed":
        defaults = settings()
        current = World(
            launch() or Launch(0, 1, f"alone-{os.getpid()}"),
            timeout_s=defaults.timeout_s if timeout_s is None else timeout_s,
            warn_s=defaults.warn_s,
        )
        _default[:] = [current]
    return current


def world() -> World:
    """Return the world that `init` made.

    Raises RunError if there is none.
    """
    if not _default or _default[-1].state == "closed":
        raise RunError("this process is in no run yet", fix="call coconet.init() first")
    return _default[-1]


# The one world that `init` made, and all open ones: a world's peers must hear its end,
# and its watch reads its segment, so only closing it lets go of it.
_default: list[World] = []
_worlds: set[World] = set()


def _num_cpus(members: list[Member]) -> int:
    """Return on how many cores the ranks may run, all together."""
    cpus = 0
    for member in members:
        cpus |= int(member.hello.cpus, 16)
    return cpus.bit_count()


def _share(num_cpus: int, size: int) -> int:
    """Return how many threads a rank gets of the cores of all, or of their time."""
    own = len(os.sched_getaffinity(0))
    allowed = min([num_cpus, *cgroup.num_cpus()])
    return max(1, min(int(allowed / size), own, MOST_THREADS))


def _create(new: World, members: list[Member], *, is_crowded: bool) -> int:
    """Map the segments of all ranks and start the watch over them."""
    size = len(members)
    hellos = [member.hello for member in members]
    address = library().cc_world_create(
        new.rank,
        size,
        new.pool.base,
        (ctypes.c_int * size)(*(member.segment for member in members)),
        (ctypes.c_uint64 * size)(*(hello.segment_bytes for hello in hellos)),
        (ctypes.c_int * size)(*new.pidfds),
        int(new.timeout_s * 1e9),
        SLICE_NS,
        SPINS_CROWDED if is_crowded else SPINS,
    )
    if not address:
        raise InternalError(
            "the C runtime could not start", got=os.strerror(ctypes.get_errno())
        )
    return address


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _leave_all() -> None:
    for each in list(_worlds):
        each.leave()


def _forget_parent() -> None:
    for each in list(_worlds):
        each.forget_parent()


@functools.cache
def _hook_process() -> None:
    """Arrange, once, that peers hear of this process's end and children of the fork."""
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        for each in list(_worlds):
            each.say_raised(error)
        previous(kind, error, trace)

    sys.excepthook = hook
    atexit.register(_leave_all)
    os.register_at_fork(after_in_child=_forget_parent)

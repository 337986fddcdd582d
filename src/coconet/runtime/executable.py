"""Run a compiled kernel: bind arguments, arrive with the other ranks, report faults.

A call is one function of one pointer.  Python fills the argument block once; per call
it writes only what changed.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import time
from collections.abc import Sequence
from ctypes import c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

from coconet.errors import StatePoisoned
from coconet.runtime.diagnosis import Scalars, explain, fault, lagging
from coconet.runtime.library import (
    ABORTED,
    AGAIN,
    BAD,
    DISAGREE,
    DONE,
    MAX_SCALARS,
    TEXT_BYTES,
    Args,
    Inboxed,
    library,
)
from coconet.runtime.world import World

__all__ = ["Call", "Kernel", "arrive_bad"]

# Texts are told apart by number, so that an unchanged one is not copied again.
_text_versions = itertools.count(1)


class Kernel:
    """The function cc_kernel of a shared object; calling it releases the GIL."""

    def __init__(self, path: Path) -> None:
        """Load the shared object at `path`, which `build` made.

        Raises OSError if it cannot be loaded, AttributeError if it has no cc_kernel.
        """
        self.path = path
        entry = ctypes.CDLL(str(path)).cc_kernel
        entry.restype = c_int32
        entry.argtypes = (c_void_p,)
        self.entry = entry


class Call:
    """One kernel bound to its arguments, to be called any number of times.

    Fields  words        int64, extents and knobs of the plan, writable
            scalars      int64, bits of the scalar arguments, compared between ranks
            consts       f64, scalar expressions, evaluated for this call
            const_words  int64, the same memory as consts
    """

    def __init__(
        self,
        world: World,
        kernel: Kernel,
        *,
        num_buffers: int,
        words: Sequence[int],
        num_scalars: int,
        num_consts: int,
        fingerprint: tuple[int, int, int, int],
        text: str,
        waits: Sequence[str],
        scalars: Scalars = (),
        threads: int = 1,
    ) -> None:
        """Make the argument block; buffers are set afterwards.

        text says, line by line, what is called; waits names the points at which the
        plan waits, the arrival first; scalars has (name, "f64" or "i64") of each.
        Raises  ResourceError: the system refuses so many threads; SharedMemoryFull
        """
        if num_scalars > MAX_SCALARS:
            raise ValueError(f"at most {MAX_SCALARS} scalars, got {num_scalars}")
        self._world, self._kernel = world, kernel
        self._waits, self._names = tuple(waits), tuple(scalars)
        self._poison: str = ""
        self._pointers = (c_void_p * max(1, num_buffers * world.size))()
        self._slots = (c_void_p * len(self._pointers))()
        self._block = world.pool.allocate(8 * num_buffers)
        self._table = (c_int64 * max(1, num_buffers)).from_address(self._block.address)
        self._table[:] = [-1] * len(self._table)
        self.words = (c_int64 * max(1, len(words)))(*words)
        self.scalars = (c_int64 * max(1, num_scalars))()
        self.consts = (c_double * max(1, num_consts))()
        self.const_words = (c_int64 * len(self.consts)).from_buffer(self.consts)
        self._args, self._text = _args(
            world, fingerprint, text, table=self._block.offset
        )
        world.start_threads(threads)
        self._args.threads = threads
        self._args.num_buffers = num_buffers
        self._args.num_scalars = num_scalars
        self._args.pointers = ctypes.addressof(self._pointers)
        self._args.slots = ctypes.addressof(self._slots)
        self._args.words = ctypes.addressof(self.words)
        self._args.scalars = ctypes.addressof(self.scalars)
        self._args.consts = ctypes.addressof(self.consts)
        self._address = ctypes.addressof(self._args)
        self._entry = kernel.entry
        self._lock = world.lock.acquire
        self._unlock = world.lock.release

    def set_private(
        self, buffer: int, address: int, *, slots: int | None = None
    ) -> None:
        """Bind a buffer to memory that only this rank sees.

        slots is the offset of the slots through which peers reach it, if they do.
        """
        world = self._world
        place = buffer * world.size + world.rank
        self._table[buffer] = -1 if slots is None else -1 - slots
        self._slots[place] = None if slots is None else world.pool.base + slots
        self._pointers[place] = address

    def set_symmetric(self, buffer: int, offset: int) -> None:
        """Bind a buffer to an offset in this rank's segment, which peers will see."""
        world = self._world
        place = buffer * world.size + world.rank
        self._table[buffer] = offset
        self._slots[place] = None
        self._pointers[place] = world.pool.base + offset

    def set_inboxed(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Let peers read buffers in this rank's inbox: (buffer, offset, bytes) of each.

        The same on every rank; the plan then needs no barriers (plan/inbox.py).
        """
        self._inboxed = (Inboxed * max(1, len(rows)))(*rows)
        self._args.inboxed = ctypes.addressof(self._inboxed)
        self._args.num_inboxed = len(rows)

    def restore(self) -> None:
        """Allow calls again: the tensors that a fault left undefined were reloaded."""
        self._poison = ""

    def __call__(self) -> None:
        """Run the kernel together with all ranks.

        Blocks  until every rank has arrived, and as long as the plan waits
        Raises  RanksDisagree, CollectiveTimeout, PeerFailed: see `errors`
                StatePoisoned, ConcurrentUse, UsedAfterFork: nothing was run
        """
        if not self._lock(False):
            raise self._world.refusal()
        try:
            self.check()
            code = self._entry(self._address)
            if code:
                self._settle(code)
        except BaseException as error:
            if self._args.arrived and _abandon(self._world, error):
                self.spoil(f"{type(error).__name__} during the arrival")
            raise
        finally:
            self._unlock()

    def check(self) -> None:
        """Raise StatePoisoned after a fault: a late peer may use all this still."""
        if not self._poison:
            return
        raise StatePoisoned(
            "an earlier fault left the updated tensors undefined",
            got=self._poison,
            fix="load the state again, then call restore()",
        )

    def _settle(self, code: int) -> None:
        """Bring a call that did not simply succeed to its end."""
        world, waits = self._world, self._waits
        code = _persist(world, self._entry, self._address, code, waits[0])
        if code == DONE:
            return
        if code == ABORTED:
            self._raise_interrupt()
        error = explain(world, code, waits=waits, scalars=self._names)
        if code not in (DISAGREE, BAD) and fault(world).torn:
            self.spoil(error.what)
        raise error

    def _raise_interrupt(self) -> None:
        """Raise what a signal's handler raised during a barrier, if one did."""
        try:
            self._world.raise_interrupt()
        except BaseException as error:
            self.spoil(f"{type(error).__name__} in the middle of a call")
            raise

    def spoil(self, why: str) -> None:
        """Refuse calls from now on: the updated tensors may be as no rank wants them.

        Some rank may have run the call and this one not, or may run it still.
        """
        self._poison = why
        self._world.pool.keep_all()


def arrive_bad(world: World, text: str) -> None:
    """Arrive at a call only to refuse it, so that every rank raises and none hangs.

    A rank calls this when its own check of its arguments failed, then raises its own
    error; the other ranks raise RanksDisagree with `text`.

    Blocks  until every rank has arrived
    Raises  CollectiveTimeout, PeerFailed, ConcurrentUse, UsedAfterFork
    """
    args, keep = _args(world, (0, 0, 0, 0), text, table=0)
    args.status = BAD
    address, enter = ctypes.addressof(args), library().cc_world_arrive
    args.scalars = address  # none are read, but memcpy wants an address
    where = "a call that this rank refuses"
    if not world.lock.acquire(blocking=False):
        raise world.refusal()
    try:
        code = _persist(world, enter, address, enter(address), where)
        if code != BAD:
            raise explain(world, code, waits=(where,), scalars=())
    except BaseException as error:
        if args.arrived:
            _abandon(world, error)
        raise
    finally:
        world.lock.release()
    del keep


def _args(
    world: World, fingerprint: tuple[int, int, int, int], text: str, *, table: int
) -> tuple[Args, c_char_p]:
    """Return an argument block, and the text that it points to."""
    said = c_char_p(text.encode("ascii", "backslashreplace")[: TEXT_BYTES - 1])
    args = Args(
        world=world.address,
        table=table,
        text_version=next(_text_versions),
        text=said,
    )
    args.fingerprint[:] = fingerprint
    return args, said


def _persist(world: World, enter: Any, address: int, code: int, where: str) -> int:
    """Repeat an arrival until it ends; say whom it waits for if that takes long."""
    began = time.monotonic()
    patience_s = world.warn_s
    while code == AGAIN:
        if time.monotonic() - began >= patience_s:
            print(
                f"coconet: rank {world.rank} has waited {patience_s:g} s at {where}"
                f" for {lagging(world)}",
                file=sys.stderr,
                flush=True,
            )
            patience_s *= 2
        code = enter(address)
    return code


def _abandon(world: World, error: BaseException) -> bool:
    """End the run from inside an arrival; return whether the call may have run."""
    world.say_raised(error)
    return fault(world).missing == 0

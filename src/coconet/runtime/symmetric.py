"""Symmetric memory: what this rank allocates and its peers address by offset.

A rank's segment is a memfd of which every rank maps the whole reserve at once.  Only
pages that the owner has grown exist, so growth needs no word to anybody.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coconet.errors import RunError, SharedMemoryFull, UsedAfterFork
from coconet.runtime import cgroup
from coconet.runtime.library import library

if TYPE_CHECKING:
    import numpy
    from numpy.typing import DTypeLike

__all__ = ["LINE", "Block", "SymmetricPool"]

LINE = 64
PAGE = 4096
LARGE_BYTES = 64 * 1024
STAGGER, RANK_STAGGER = 21 * LINE, 10 * LINE
"""A large block starts so much further in its page than the one before, and than that
of the rank before.  Where a loop walks several tensors, equal places in their pages
contend (measured: 8 % of a step).
"""
GROWTH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A piece of this rank's segment, freed with its last reference.

    offset and nbytes are bytes; address is where this process sees it.
    """

    pool: SymmetricPool
    offset: int
    address: int
    nbytes: int

    def __del__(self) -> None:
        """Give the bytes back; the pool takes them when it next allocates."""
        self.pool.take_back(self)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Let numpy see the bytes; the array keeps the block alive."""
        return {
            "data": (self.address, False),
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


class SymmetricPool:
    """The allocator of this rank's segment.

    Fields  fd        the memfd, -1 once closed
            base      its address here
            reserve   bytes of address space, the most it can grow to
            nbytes    bytes that exist
    Units   bytes
    Raises  SharedMemoryFull
    """

    def __init__(self, *, reserve: int, header: int, rank: int = 0) -> None:
        """Make a rank's segment, whose first `header` bytes stay the runtime's."""
        self.reserve = _up(reserve, PAGE)
        self.nbytes = 0
        self.fd = os.memfd_create("coconet", os.MFD_CLOEXEC)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._gaps: list[tuple[int, int]] = []  # (start, end), sorted, never adjacent
        # Finalizers run at any moment, also inside allocate: they only append here.
        self._returned: deque[tuple[int, int]] = deque()
        self._keeps_all = False
        self._stagger = rank * RANK_STAGGER % PAGE
        self.base: int = library().cc_map(self.fd, self.reserve) or 0
        if not self.base:
            self.close()
            raise SharedMemoryFull(
                "no address space for a segment",
                need=f"{self.reserve} bytes",
                fix="set COCONET_MEMORY to fewer bytes, or raise ulimit -v",
            )
        weakref.finalize(
            self, library().cc_unmap, self.base, self.reserve
        ).atexit = False
        self._grow(header)
        self._gaps[:] = [(_up(header, PAGE), self.nbytes)]

    def allocate(self, nbytes: int) -> Block:
        """Return a block of at least `nbytes`, on a line.

        Blocks  never; but growing touches pages, about 0.1 ms per MiB
        Raises  SharedMemoryFull, UsedAfterFork
        """
        self._check()
        wanted = _up(max(nbytes, 1), LINE)
        with self._lock:
            self._collect()
            place: int | None = None
            if wanted >= LARGE_BYTES:
                place = self._stagger
                self._stagger = (place + STAGGER) % PAGE
            # what a block left is staggered already, and another one may just fit
            offset = self._take(wanted, place) or self._take(wanted, None)
            if offset is None:
                last, end = self._gaps[-1] if self._gaps else (self.nbytes, self.nbytes)
                start = last if end == self.nbytes else self.nbytes
                self._grow(_placed(start, place) + wanted - self.nbytes)
                offset = self._take(wanted, place)
        assert offset is not None
        return Block(self, offset, self.base + offset, nbytes)

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> numpy.ndarray[Any, Any]:
        """Return an array in symmetric memory, its contents undefined."""
        import numpy

        kind = numpy.dtype(dtype)
        count = 1
        for extent in shape:
            count *= extent
        block = self.allocate(count * kind.itemsize)
        return numpy.ndarray(tuple(shape), kind, buffer=numpy.asarray(block))

    def offset_of(self, address: int, nbytes: int) -> int | None:
        """Return where in the segment a range of memory lies, None if it does not."""
        offset = address - self.base
        return offset if offset >= 0 and offset + nbytes <= self.nbytes else None

    def take_back(self, block: Block) -> None:
        """Note a block that nobody refers to any more; for the block itself."""
        if self._keeps_all:
            return
        end = block.offset + _up(max(block.nbytes, 1), LINE)
        self._returned.append((block.offset, end))

    def keep_all(self) -> None:
        """Use no freed memory again: a peer that is late may still write to it."""
        self._keeps_all = True

    def trim(self) -> None:
        """Give what is free at the end of the segment back to the system."""
        self._check()
        with self._lock:
            self._collect()
            if self._keeps_all or not self._gaps or self._gaps[-1][1] != self.nbytes:
                return
            start, _ = self._gaps.pop()
            self.nbytes = _up(start, PAGE)
            if start < self.nbytes:
                self._gaps.append((start, self.nbytes))
            os.ftruncate(self.fd, self.nbytes)

    def close(self) -> None:
        """Allocate no more; the memory lives as long as its blocks."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise UsedAfterFork(
                "a forked child has no symmetric memory",
                fix="start the process with spawn instead of fork",
            )
        if self.fd < 0:
            raise RunError("the world of this symmetric memory is closed")

    def _collect(self) -> None:
        """Put back what was freed since the last time."""
        if not self._returned:
            return
        while self._returned:
            insort(self._gaps, self._returned.popleft())
        self._gaps[:] = _joined(self._gaps)

    def _take(self, nbytes: int, place: int | None) -> int | None:
        """Take the first gap that fits, at this place in a page if one is given.

        Never at offset 0, where the header is.
        """
        for index, (start, end) in enumerate(self._gaps):
            at = _placed(start, place)
            if at + nbytes <= end:
                rest = ((start, at), (at + nbytes, end))
                self._gaps[index : index + 1] = [gap for gap in rest if gap[0] < gap[1]]
                return at
        return None

    def _grow(self, by: int) -> None:
        """Make pages of at least `by` more bytes, so that no access can fail later."""
        wanted = _up(by, PAGE)
        spare = min(_up(by, GROWTH_BYTES), self.reserve - self.nbytes)
        free = min(_free_bytes(), self.reserve - self.nbytes)
        if wanted > free:
            raise SharedMemoryFull(
                "no room for symmetric memory",
                got=f"{free} bytes free; this rank holds {self.nbytes}",
                need=f"{wanted} bytes more",
                fix="free arrays, use smaller ones, or set COCONET_MEMORY if it is low",
            )
        step = max(wanted, spare) if spare <= free else wanted
        try:
            os.posix_fallocate(self.fd, self.nbytes, step)
        except OSError as error:
            raise SharedMemoryFull(
                "the system refused symmetric memory",
                got=f"{error.strerror}; this rank holds {self.nbytes} bytes",
                need=f"{step} bytes more",
                fix="raise the memory limit of this container or user",
            ) from error
        # in this order: if Ctrl-C comes between, the gap is lost, not given out twice
        start, self.nbytes = self.nbytes, self.nbytes + step
        self._gaps[:] = _joined([*self._gaps, (start, start + step)])


def _up(value: int, step: int) -> int:
    """Round up to a multiple of step."""
    return -(-value // step) * step


def _placed(start: int, place: int | None) -> int:
    """Return the first line from start on, or the first at this place in a page."""
    return _up(start, LINE) if place is None else _up(start - place, PAGE) + place


def _joined(gaps: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge sorted gaps that touch."""
    joined: list[tuple[int, int]] = []
    for start, end in gaps:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _free_bytes() -> int:
    """Return what can be allocated before the kernel kills somebody for it."""
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    )
    return min([available, *cgroup.room_bytes()])

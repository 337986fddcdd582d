"""The speed of light: memcpy of the step's least bytes, on all ranks at once."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coconet.bench.engines.engine import Place, Ready
from coconet.bench.machine import last_level_cache_bytes, memory_bytes

__all__ = ["Copy", "buffer_bytes", "copy_step"]

Bytes = NDArray[np.uint8]


class Copy:
    """libc's memcpy from one large buffer to another, walked through in a circle.

    A step copies half of the step's least bytes: each is read once and written once.
    """

    def __init__(self, place: Place) -> None:
        """Allocate both buffers and touch every page of them."""
        self.library = " ".join(platform.libc_ver())
        self.size, self.task = place.size, place.task
        nbytes = buffer_bytes(
            cache=last_level_cache_bytes(), memory=memory_bytes(), ranks=place.size
        )
        self.source = np.ones(nbytes, np.uint8)
        self.target = np.full(nbytes, 2, np.uint8)

    def prepare(self, elements: int) -> Ready:
        """Return the copy for a parameter of that many elements."""
        length = self.task.least_bytes(elements, self.size) // 2
        step = copy_step(self.source, self.target, length)
        mebibytes = self.source.nbytes >> 20
        return Ready(step, f"streaming memcpy between two buffers of {mebibytes} MiB")

    def close(self) -> None:
        """Nothing to leave: the ranks only start together."""


def copy_step(source: Bytes, target: Bytes, length: int) -> Callable[[], None]:
    """Return a call that copies the next `length` bytes, starting over at the end."""
    memcpy = ctypes.CDLL(None).memcpy
    memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    memcpy.restype = ctypes.c_void_p
    source_at, target_at, circle = source.ctypes.data, target.ctypes.data, source.nbytes
    at = 0

    def step() -> None:
        nonlocal at
        left = length
        while left:
            part = min(left, circle - at)
            memcpy(target_at + at, source_at + at, part)
            at = (at + part) % circle
            left -= part

    return step


def buffer_bytes(*, cache: int, memory: int, ranks: int) -> int:
    """Return how large each buffer is: 256 MiB, or 4 times the last cache if more.

    Where that would take more than half of the memory, the two buffers of a rank
    together are 4 times the cache.  A virtual machine may report the cache of its whole
    host, so this is more than needed rather than less.
    """
    least = 256 << 20
    if 2 * ranks * 4 * cache <= memory // 2:
        return max(least, 4 * cache)
    return max(least, 2 * cache)

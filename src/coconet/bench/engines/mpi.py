"""What the engines on MPI share: the library, and which of its ways is fastest."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from coconet.bench.engines.engine import Place
from coconet.bench.engines.vendor import Vendor

__all__ = ["Mpi"]

_TRIALS = 5
_TRIAL_ELEMENTS, _MOST_REPEATS = 1 << 20, 100


class Mpi:
    """The ranks that the library's own launcher started, with one thread each.

    MPI has no 16-bit floats, so these engines take every step in f32.
    """

    def __init__(self, place: Place, vendor: Vendor) -> None:
        """Load mpi4py from the vendor's folder; the launcher said where libmpi is."""
        torch.set_num_threads(1)
        sys.path.append(str(vendor.path))
        mpi4py: Any = importlib.import_module("mpi4py")
        mpi4py.rc.thread_level = "single"  # any other takes a lock in every call
        mpi4py.rc.finalize = False  # a rank that raised must not wait for the others
        self.mpi: Any = importlib.import_module("mpi4py.MPI")
        self.library = " ".join(self.mpi.Get_library_version().split("\n")[0].split())
        self.comm: Any = self.mpi.COMM_WORLD
        self.rank, self.size, self.task = place.rank, place.size, place.task

    def close(self) -> None:
        """Leave the group."""
        self.mpi.Finalize()

    def fastest(
        self, ways: Mapping[str, Callable[[], object]], elements: int
    ) -> tuple[str, Callable[[], object]]:
        """Try equivalent ways in turns; return the fastest and its name.

        All ranks choose alike: the slowest rank's median counts.
        """
        repeats = min(max(1, _TRIAL_ELEMENTS // elements), _MOST_REPEATS)
        spent_s = [
            [self._time_s(call, repeats) for call in ways.values()]
            for _ in range(_TRIALS)
        ]
        slowest_s = np.median(spent_s, axis=0)
        self.comm.Allreduce(self.mpi.IN_PLACE, slowest_s, op=self.mpi.MAX)
        return list(ways.items())[int(np.argmin(slowest_s))]

    def _time_s(self, call: Callable[[], object], repeats: int) -> float:
        self.comm.Barrier()
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return time.perf_counter() - begin


class Persistent:
    """A persistent request as a call, freed with its last reference."""

    def __init__(self, request: Any) -> None:
        """Own the request, which has not started."""
        self._request = request

    def __call__(self) -> None:
        """Run it once and wait for it."""
        self._request.Start()
        self._request.Wait()

    def __del__(self) -> None:
        """Free it."""
        self._request.Free()

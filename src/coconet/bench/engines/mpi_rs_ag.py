"""The distributed optimizer written by hand on MPI: each rank updates a slice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from coconet.bench.engines.engine import Ready
from coconet.bench.engines.mpi import Mpi, Persistent
from coconet.bench.engines.task import Array
from coconet.bench.engines.torch_step import tensor, update_step
from coconet.bench.engines.vendor import INTEL_MPI, MPICH

__all__ = ["MpiRsAg", "intel_mpi", "mpich"]


class MpiRsAg(Mpi):
    """Reduce-scatter of the gradient, the update of a slice, all-gather.

    All slices are equally long, the last one padded: the uneven calls (.._scatter,
    .._gatherv) are slower.  No persistent all-gather: Intel MPI 2021.18 crashes in it.
    """

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        optimizer, padding = self.task.optimizer, (0, -elements % self.size)
        param = np.pad(self.task.parameter(elements), padding)
        grad = np.zeros_like(param)
        total = np.empty(grad.size // self.size, np.float32)
        scatter, reduce_scatter = self._reduce_scatter(grad, total)
        gather, all_gather = self._all_gather(param)
        grad[:elements] = self.task.gradient(elements, self.rank)
        total_tensor = tensor(total)
        mine = tensor(param).view(self.size, -1)[self.rank]
        update = update_step(optimizer, mine, total_tensor)

        def step() -> None:
            reduce_scatter()
            total_tensor.div_(self.size)
            update()
            all_gather()

        schedule = f"{scatter}; {optimizer}(fused) on the slice; {gather}"
        return Ready(step, schedule, grad[:elements], param[:elements])

    def _reduce_scatter(
        self, grad: Array, total: Array
    ) -> tuple[str, Callable[[], object]]:
        comm, slices = self.comm, grad.reshape(self.size, -1)
        received = np.empty_like(total)

        def pairwise() -> None:
            term = slices[self.rank]
            for to, source in self._partners():
                comm.Sendrecv(slices[to], to, recvbuf=received, source=source)
                np.add(term, received, out=total)
                term = total
            if term is not total:
                total[:] = term

        ways = {
            "reduce_scatter": partial(comm.Reduce_scatter_block, grad, total),
            "persistent reduce_scatter": Persistent(
                comm.Reduce_scatter_block_init(grad, total)
            ),
            "pairwise sendrecv + sum": pairwise,
        }
        return self.fastest(ways, grad.size)

    def _all_gather(self, param: Array) -> tuple[str, Callable[[], object]]:
        comm, slices = self.comm, param.reshape(self.size, -1)

        def pairwise() -> None:
            mine = slices[self.rank]
            for to, source in self._partners():
                comm.Sendrecv(mine, to, recvbuf=slices[source], source=source)

        ways = {
            "all_gather": partial(comm.Allgather, self.mpi.IN_PLACE, param),
            "pairwise sendrecv": pairwise,
        }
        return self.fastest(ways, param.size)

    def _partners(self) -> list[tuple[int, int]]:
        """Return whom this rank sends to and receives from, round after round."""
        steps = range(1, self.size)
        return [
            ((self.rank + k) % self.size, (self.rank - k) % self.size) for k in steps
        ]


mpich = partial(MpiRsAg, vendor=MPICH)
intel_mpi = partial(MpiRsAg, vendor=INTEL_MPI)

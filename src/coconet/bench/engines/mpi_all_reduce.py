"""MPI all-reduce of the gradient in place, then torch's optimizer on every rank."""

from __future__ import annotations

from functools import partial

import numpy as np

from coconet.bench.engines.engine import Ready
from coconet.bench.engines.mpi import Mpi, Persistent
from coconet.bench.engines.torch_step import tensor, update_step
from coconet.bench.engines.vendor import INTEL_MPI, MPICH

__all__ = ["MpiAllReduce", "intel_mpi", "mpich"]


class MpiAllReduce(Mpi):
    """All-reduce of the gradient, its mean, and the whole update on every rank."""

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        optimizer, comm, in_place = self.task.optimizer, self.comm, self.mpi.IN_PLACE
        grad = np.zeros(elements, np.float32)
        param = self.task.parameter(elements)
        ways = {
            "all_reduce": partial(comm.Allreduce, in_place, grad),
            "persistent all_reduce": Persistent(comm.Allreduce_init(in_place, grad)),
        }
        name, all_reduce = self.fastest(ways, elements)
        grad[:] = self.task.gradient(elements, self.rank)
        grad_tensor = tensor(grad)
        update = update_step(optimizer, tensor(param), grad_tensor)

        def step() -> None:
            all_reduce()
            grad_tensor.div_(self.size)
            update()

        return Ready(step, f"{name}; {optimizer}(fused)", grad, param)


mpich = partial(MpiAllReduce, vendor=MPICH)
intel_mpi = partial(MpiAllReduce, vendor=INTEL_MPI)

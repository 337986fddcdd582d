"""Data-parallel training on CPUs today: gloo all-reduce, torch's optimizer."""

from __future__ import annotations

from coconet.bench.engines.engine import Ready
from coconet.bench.engines.gloo import Gloo, distributed
from coconet.bench.engines.torch_step import tensor, update_step

__all__ = ["GlooAllReduce"]


class GlooAllReduce(Gloo):
    """All-reduce of the gradient, its mean, and the whole update on every rank."""

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        task = self.task
        grad = task.stored(task.gradient(elements, self.rank))
        param = task.stored(task.parameter(elements))
        grad_tensor = tensor(grad)
        update = update_step(task.optimizer, tensor(param), grad_tensor)

        def step() -> None:
            distributed.all_reduce(grad_tensor)
            grad_tensor.div_(self.size)
            update()

        return Ready(step, f"all_reduce; {task.fused}", grad, param)

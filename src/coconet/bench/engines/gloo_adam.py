"""What data-parallel training on CPUs does today: gloo all-reduce, torch's Adam."""

from __future__ import annotations

from coconet.bench.engines.engine import Ready, gradient, parameter
from coconet.bench.engines.gloo import Gloo, adam_step, distributed, tensor

__all__ = ["GlooAdam"]


class GlooAdam(Gloo):
    """All-reduce of the gradient, its mean, and the whole update on every rank."""

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        grad = gradient(elements, self.rank)
        param = parameter(elements)
        grad_tensor = tensor(grad)
        update = adam_step(tensor(param), grad_tensor)

        def step() -> None:
            distributed.all_reduce(grad_tensor)
            grad_tensor.div_(self.size)
            update()

        return Ready(step, "all_reduce; adam(fused)", grad, param)

"""What the engines on torch.distributed's gloo share: the group and the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from coconet.bench.engines.engine import BETAS, EPS, LR, Array, Place

__all__ = ["Gloo", "adam_step", "distributed", "tensor"]

distributed: Any = torch.distributed  # torch annotates few parameters of either
_torch: Any = torch


class Gloo:
    """A gloo group over loopback, with one thread per rank."""

    def __init__(self, place: Place) -> None:
        """Meet the other ranks at a file in the engine's folder."""
        torch.set_num_threads(1)
        self.rank, self.size = place.rank, place.size
        distributed.init_process_group(
            "gloo",
            store=distributed.FileStore(str(Path(place.folder) / "store"), place.size),
            rank=place.rank,
            world_size=place.size,
            timeout=timedelta(seconds=120),
        )

    def close(self) -> None:
        """Leave the group."""
        distributed.destroy_process_group()


def tensor(array: Array) -> Tensor:
    """Return a tensor on the memory of the array."""
    return _torch.from_numpy(array)


def adam_step(parameter: Tensor, gradient: Tensor) -> Callable[[], object]:
    """Return the step of torch's fastest Adam on a flat parameter and its gradient."""
    leaf = torch.nn.Parameter(parameter)
    leaf.grad = gradient
    optimizer: Any = torch.optim.Adam([leaf], lr=LR, betas=BETAS, eps=EPS, fused=True)
    return optimizer.step

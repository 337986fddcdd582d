"""What the baselines share: torch's fused optimizers on the memory of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coconet.bench.engines.task import BETAS, EPS, LR, Array

__all__ = ["tensor", "update_step"]

_torch: Any = torch  # torch annotates few parameters of what is used here
_optim: Any = torch.optim


def tensor(array: Array) -> Tensor:
    """Return a tensor on the memory of an f32 or bf16 array."""
    if array.dtype == np.float32:
        return _torch.from_numpy(array)
    return _torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def update_step(
    optimizer: str, parameter: Tensor, gradient: Tensor
) -> Callable[[], object]:
    """Return the step of torch's fused optimizer on a parameter and its gradient.

    A 16-bit parameter is a rounded copy of f32 master weights, which are what is
    updated.
    """
    master, wide = parameter.float(), gradient.float()  # themselves if they are f32
    leaf = torch.nn.Parameter(master)
    leaf.grad = wide
    match optimizer:
        case "adam":
            fused = _optim.Adam([leaf], lr=LR, betas=BETAS, eps=EPS, fused=True)
        case _:
            fused = _optim.SGD([leaf], lr=LR, fused=True)
    if master is parameter:
        return fused.step

    def step() -> None:
        if wide is not gradient:
            wide.copy_(gradient)
        fused.step()
        parameter.copy_(master)

    return step

"""Gradient scaling whose scale stays the same on every rank."""

from __future__ import annotations

from typing import Any

import torch

from coconet.torch.optim import Optimizer

__all__ = ["GradScaler"]


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler for the optimizers of coconet.torch.optim.

    torch's own works too: all ranks take or skip a step together.  But it lowers the
    scale only on the ranks that found an inf; this one lowers it on all.
    """

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any
    ) -> dict[torch.device, torch.Tensor]:
        found = super()._unscale_grads_(optimizer, *args, **kwargs)
        if not isinstance(optimizer, Optimizer):
            return found
        own = any(bool(flag) for flag in found.values())
        shared = torch.tensor(float(optimizer.agree_on_inf(own)))
        return {torch.device("cpu"): shared}

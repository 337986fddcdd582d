"""Training beside torch.optim: the same model, on the mean gradient of all ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from coconet.runtime.world import World

Batches = Sequence[torch.Tensor]


class Odd(nn.Module):
    """A channels_last convolution, a 0-d, an empty, a tied, a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, bias=False).to(memory_format=torch.channels_last)
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.nothing = nn.Parameter(torch.empty(0, 3))
        self.embed = nn.Linear(5, 7, bias=False)
        self.tied = nn.Linear(5, 7, bias=False)
        self.tied.weight = self.embed.weight
        self.frozen = nn.Linear(7, 7)
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = x.reshape(-1, 3, 4, 4)
        features = self.conv(images).mean((2, 3)) * self.gain
        hidden = self.frozen(self.embed(features) + self.tied(features.tanh()))
        return hidden + self.nothing.sum()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(48, 13), nn.Tanh(), nn.Linear(13, 3))


def deep() -> nn.Module:
    layers = [nn.Sequential(nn.Linear(48, 48), nn.LayerNorm(48), nn.GELU())] * 1
    return nn.Sequential(*layers, nn.Linear(48, 101), nn.ReLU(), nn.Linear(101, 1))


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return make()


def batches(step: int, ranks: int) -> Batches:
    generator = torch.Generator().manual_seed(1000 + step)
    return [torch.randn(6, 48, generator=generator) for _ in range(ranks)]


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return (model(batch) - 0.3).square().mean()


class Reference:
    """A copy of a model, trained by torch's optimizer in this process alone."""

    def __init__(self, model: nn.Module, make: Callable[[Any], Any]) -> None:
        self.model = copy.deepcopy(model)
        self.optimizer = make(self.model.parameters())

    def reduce(
        self,
        per_rank: Batches,
        loss: Callable[..., torch.Tensor] = loss_of,
        *,
        divide: bool = True,
    ) -> None:
        """Set the mean gradient; None only where it is None on every rank."""
        params = list(self.model.parameters())
        totals: list[torch.Tensor | None] = [None] * len(params)
        for batch in per_rank:
            self.model.zero_grad()
            loss(self.model, batch).backward()
            for number, param in enumerate(params):
                if param.grad is not None:
                    known = totals[number]
                    totals[number] = param.grad if known is None else known + param.grad
        for param, total in zip(params, totals, strict=True):
            count = len(per_rank) if divide else 1
            param.grad = None if total is None else total / count

    def step(self, per_rank: Batches, **options: Any) -> None:
        self.reduce(per_rank, **options)
        self.optimizer.step()


def check_close(got: Any, need: Any, tolerance: float = 2e-6) -> None:
    """Compare tensors; the error is relative to the largest element."""
    for number, (ours, theirs) in enumerate(zip(got, need, strict=True)):
        ours, theirs = ours.detach(), theirs.detach()
        assert ours.shape == theirs.shape
        if not theirs.numel():
            continue
        error = float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12))
        assert error <= tolerance, f"tensor {number} is {error:.3g} off"


def check_same_model(model: nn.Module, reference: Reference, **options: Any) -> None:
    check_close(model.parameters(), reference.model.parameters(), **options)


def check_same_state(ours: Any, theirs: Any, tolerance: float = 1e-5) -> None:
    """Compare what two optimizers' state_dict() hold."""
    got, need = ours.state_dict(), theirs.state_dict()
    assert got["state"].keys() == need["state"].keys()
    for group, other in zip(got["param_groups"], need["param_groups"], strict=True):
        assert group["params"] == other["params"]
        assert {name: other[name] for name in group} == group
    for number, kept in need["state"].items():
        assert got["state"][number].keys() == kept.keys()
        for name, tensor in kept.items():
            mine = got["state"][number][name]
            assert mine.dtype == tensor.dtype
            assert mine.stride() == tensor.stride()
            check_close([mine], [tensor], tolerance)


def bits(model: nn.Module) -> list[list[int]]:
    """Return the bit patterns of all parameters."""
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return [
        p.detach().reshape(-1).view(kinds[p.element_size()]).tolist()
        for p in model.parameters()
    ]


def train(
    world: World,
    model: nn.Module,
    ours: Any,
    reference: Reference,
    steps: range,
    loss: Callable[..., torch.Tensor] = loss_of,
    *,
    set_to_none: bool = True,
) -> None:
    for step in steps:
        data = batches(step, world.size)
        ours.zero_grad(set_to_none=set_to_none)
        loss(model, data[world.rank]).backward()
        ours.step()
        reference.step(data, loss=loss)

"""What the optimizers refuse, on every rank alike: one of the cases of optim_cases."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from coconet.errors import ProgramError, UnsupportedError
from coconet.runtime.world import World
from coconet.torch import optim

from training import mlp, seeded  # isort: skip


def what_cannot_be_updated_is_refused(world: World) -> None:
    with pytest.raises(UnsupportedError, match=r"need: .*float16 or .*float64"):
        optim.Adam([nn.Parameter(torch.ones(3, dtype=torch.complex64))])
    with pytest.raises(UnsupportedError, match="meta"):
        optim.Adam([nn.Parameter(torch.ones(3, device="meta"))])
    memory = torch.ones(6)
    with pytest.raises(ProgramError, match="share memory"):
        optim.SGD([nn.Parameter(memory), nn.Parameter(memory[2:4])])
    table = nn.Embedding(5, 3, sparse=True)
    optimizer = optim.SGD(table.parameters())
    with pytest.raises(UnsupportedError, match="sparse"):
        table(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="state_dict"):
        copy.deepcopy(optimizer)
    model = seeded(mlp)
    optimizer = optim.SGD(model.parameters())
    model.double()
    with pytest.raises(UnsupportedError, match="float64"):
        model(torch.ones(2, 48, dtype=torch.float64)).sum().backward()
    with pytest.raises(UnsupportedError, match="float64"):
        optimizer.step()
    for bad in (
        {"lr": -1.0},
        {"max_norm": 0.0},
        {"max_norm": float("nan")},
        {"reduction": "max"},
        {"betas": (1.0, 0.9)},
        {"eps": -1e-8},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            optim.Adam(model.parameters(), **bad)
    with pytest.raises(ValueError, match="nesterov"):
        optim.SGD(model.parameters(), nesterov=True)
    with pytest.raises(TypeError, match="fuse"):
        optim.SGD(model.parameters(), fuse=True)

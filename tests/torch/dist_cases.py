"""What both ranks run for test_optim: process groups of torch, and DDP."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import coconet.torch.dist as ours
from coconet.errors import GroupError, ProgramError, UnsupportedError
from coconet.runtime.world import World, init
from coconet.torch.dist import world_of
from coconet.torch.optim import SGD

from rank_cases import Cases  # isort: skip

CASES = Cases()


def run_cases(folder: str) -> dict[str, str]:
    return CASES.run(folder)


def groups_of_torch(launched: World) -> None:
    """Check every kind of group, and that both ranks are in the same runs."""
    folder = str(CASES.folder)
    assert init() is launched
    assert world_of(None) is launched
    assert world_of(launched) is launched
    rank = launched.rank
    _join(folder, "alike", rank)
    assert world_of(None) is launched
    pair = dist.new_group([0, 1])
    met = world_of(pair)
    assert (met.rank, met.size) == (rank, 2)
    assert met is not launched
    assert world_of(pair) is met
    _train(met, group=pair)
    alone = dist.new_group([1])
    if rank == 1:
        assert (world_of(alone).rank, world_of(alone).size) == (0, 1)
        _train(world_of(alone), group=alone)
    else:
        with pytest.raises(GroupError, match="not in the group"):
            world_of(alone)
    _check_hosts(folder, rank)
    _check_wrapped(launched)
    dist.destroy_process_group()
    store = _join(folder, "turned", 1 - rank)
    turned = world_of(None)
    assert (turned.rank, turned.size) == (1 - rank, 2)
    _train(turned, group=None)
    runs = [met.run, turned.run]
    store.set(f"runs of {rank}", " ".join(runs))
    assert store.get(f"runs of {1 - rank}").decode().split() == runs
    assert all(run.startswith("torch-") for run in runs)
    assert len(set(runs)) == 2
    dist.destroy_process_group()
    assert world_of(None) is launched


CASES.add(groups_of_torch, (2,))


def _join(folder: str, name: str, rank: int) -> dist.Store:
    store = dist.FileStore(str(Path(folder) / name), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    return store


def _train(world: World, *, group: Any) -> None:
    param = nn.Parameter(torch.full((3,), float(world.rank)))
    optimizer = SGD([param], lr=1.0, group=group)
    param.grad = torch.full((3,), 2.0 * world.rank)
    optimizer.step()
    assert param.tolist() == [1.0 - world.size] * 3


def _check_hosts(folder: str, rank: int) -> None:
    here = ours.BOOT_ID
    elsewhere = Path(folder) / "boot_id"
    elsewhere.write_text("00000000-0000-4000-8000-000000000001\n")
    ours.BOOT_ID = elsewhere if rank else here
    try:
        with pytest.raises(UnsupportedError, match="several hosts"):
            world_of(dist.new_group([0, 1]))
    finally:
        ours.BOOT_ID = here


def _check_wrapped(world: World) -> None:
    model = nn.Linear(3, 2)
    wrapped = DistributedDataParallel(model)
    with pytest.raises(ProgramError, match="DistributedDataParallel"):
        SGD(model.parameters())
    del wrapped
    optimizer = SGD(model.parameters(), lr=0.1)
    later = DistributedDataParallel(model)
    later(torch.ones(1, 3) * world.rank).sum().backward()
    with pytest.raises(ProgramError, match="DistributedDataParallel"):
        optimizer.step()
    del later
    gc.collect()
    before = model.bias.detach().clone()
    optimizer.zero_grad()
    (model(torch.ones(1, 3)).sum() * world.rank).backward()
    optimizer.step()
    assert torch.equal(model.bias.detach(), before - 0.1 * 0.5)

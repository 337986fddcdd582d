"""From a torch process group to the ranks that programs run on."""

from __future__ import annotations

import secrets
import uuid
import weakref
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from coconet.errors import GroupError, UnsupportedError
from coconet.runtime.world import World, init
from coconet.settings import Launch, launch, settings

__all__ = ["world_of"]

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # one per running host

_worlds: weakref.WeakKeyDictionary[Any, World] = weakref.WeakKeyDictionary()


def world_of(group: dist.ProcessGroup | World | None = None) -> World:
    """Return the ranks of a process group, met on first use.

    group  None: torch's default group if it is initialised, else the world that
           `coconet run`, `spawn` or torchrun launched

    Blocks  on first use, until every rank of the group is there
    Raises  GroupError if this process is not in the group; UnsupportedError if its
            ranks are on several hosts; and as coconet.init does
    """
    if isinstance(group, World):
        return group
    if group is None and not (dist.is_available() and dist.is_initialized()):
        return init()
    found = group or dist.group.WORLD
    if dist.get_rank(found) < 0:
        raise GroupError(
            "this process is not in the group",
            got=f"rank {dist.get_rank()} of the default group",
            need="a member",
        )
    known = _worlds.get(found)
    if known is None or known.state == "closed":
        known = _worlds[found] = _meet(found)
    return known


def _meet(group: Any) -> World:
    """Make the world of a group, whose ranks all call this."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if _is_launched_alike(group, rank, size):
        return init()
    token: Any = torch.tensor(list(secrets.token_bytes(16)), dtype=torch.uint8)
    dist.broadcast(token, group=group, group_src=0)
    run = "torch-" + bytes(token.tolist()).hex()
    defaults = settings()
    return World(
        Launch(rank, size, run),
        timeout_s=defaults.timeout_s,
        warn_s=defaults.warn_s,
    )


def _is_launched_alike(group: Any, rank: int, size: int) -> bool:
    """Return whether every rank's launcher gave it the place it has in the group.

    Raises UnsupportedError if the ranks are on several hosts.
    """
    place = launch()
    is_alike = group is dist.group.WORLD and place is not None
    if is_alike and place is not None:
        is_alike = (place.rank, place.size) == (rank, size)
    host = uuid.UUID(BOOT_ID.read_text().strip()).int % 2**62
    facts: Any = torch.tensor([int(is_alike), host, -host])
    torch_dist: Any = dist
    torch_dist.all_reduce(facts, dist.ReduceOp.MIN, group=group)
    all_alike, least, most = facts.tolist()
    if least != -most:
        raise UnsupportedError(
            "the ranks of this group are on several hosts",
            got=f"{size} ranks",
            need="one host: they share memory",
            fix="a group per host, dist.new_subgroups()",
        )
    return bool(all_alike)

"""A rank whose own arguments do not fit must not leave the others waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from coconet.runtime.executable import arrive_bad
from coconet.runtime.world import World

__all__ = ["refusing"]

P = ParamSpec("P")
R = TypeVar("R")


def refusing(
    world: World,
    program: str,
    check: Callable[P, R],
    *args: P.args,
    **options: P.kwargs,
) -> R:
    """Return check(..); if it fails on this rank, for any reason, every rank raises.

    Blocks  until every rank has arrived, if the check fails
    Raises  what the check raises; the other ranks raise RanksDisagree with its text
    """
    try:
        return check(*args, **options)
    except Exception as error:
        if world.size > 1:
            arrive_bad(world, f"program {program}: {error}")
        raise

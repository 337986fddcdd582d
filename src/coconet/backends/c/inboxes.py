"""Which arguments of a call go through inboxes, and where there."""

from __future__ import annotations

import math
from collections.abc import Mapping

from coconet.backends.arguments import stored_shape
from coconet.backends.c.words import Knobs
from coconet.plan import Plan, inboxed
from coconet.runtime.library import INBOX_BYTES
from coconet.runtime.symmetric import LINE

__all__ = ["inbox_rows"]


def inbox_rows(
    plan: Plan, sizes: Mapping[str, int], knobs: Knobs, rank: int
) -> dict[str, tuple[int, int, int]]:
    """Return of each argument that peers of a rank read in its inbox: the number of its
    buffer, where it is in the inbox, and its bytes; nothing if they read in place.

    An argument has one place on all ranks, with room for the largest piece.
    """
    found: dict[str, tuple[int, int, int]] = {}
    total = end = 0
    for name in inboxed(plan):
        buffer = plan.buffer(name)
        largest, mine = (
            math.prod(stored_shape(buffer, sizes, owner, plan.ranks))
            * buffer.dtype.itemsize
            for owner in (0, rank)
        )
        found[name] = plan.buffers.index(buffer), end, mine
        total += largest
        end += -(-largest // LINE) * LINE
    return found if total <= knobs.inbox_bytes and end <= INBOX_BYTES else {}

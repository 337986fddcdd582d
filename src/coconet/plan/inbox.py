"""Inboxes: how small arguments reach peers without a wait at the end of the call.

Where peers read an argument in place, its owner waits at the end until they have.
What is small is rather copied, before the arrival, into an inbox that belongs to the
rank and not to the call; peers read it there, and no further wait is needed.  There are
two inboxes, used by every other call: a rank fills that of call e again when it begins
call e + 2, behind the arrival of call e + 1, which all ranks reach when done with e.
"""

from __future__ import annotations

from coconet.plan.buffer import Role
from coconet.plan.instr import OWN, Arrive, Fold, Load, Reduce, Store, Tile
from coconet.plan.plan import Plan

__all__ = ["INBOXES", "inboxed"]

INBOXES = 2


def inboxed(plan: Plan) -> tuple[str, ...]:
    """Return the arguments that peers read, if these can all be in inboxes; else ().

    They can if peers touch nothing else, and no rank has written to its own before.
    Then the plan's barriers order nothing.
    """
    names: dict[str, None] = {}
    written: set[str] = set()
    for step in plan.body:
        if isinstance(step, Arrive):
            written.clear()
        if isinstance(step, Fold):
            return ()
        if not isinstance(step, Tile):
            continue
        for access in step.body:
            if isinstance(access, Load) and access.peer is not OWN:
                is_given = plan.buffer(access.buffer).role is Role.ARGUMENT
                if not is_given or access.buffer in written:
                    return ()
                names[access.buffer] = None
            elif isinstance(access, Store) and access.peer is not OWN:
                return ()
        stores = (s for s in step.body if isinstance(s, Store | Reduce))
        written |= {s.buffer for s in stores}
    return tuple(names)

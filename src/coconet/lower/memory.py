"""Which temporaries share memory: values that are not alive at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from coconet.ir import Program, Value
from coconet.lower.kernels import Kernel
from coconet.schedule.legality import reads_peers

__all__ = ["shared_temporaries"]


def shared_temporaries(
    program: Program, kernels: Sequence[Kernel], stored: Collection[Value]
) -> Mapping[Value, int]:
    """Return a number for each stored value; equal numbers may be one buffer.

    Two values share if one's last reader runs before the other's kernel, and both have
    one type.  A value that peers read or write shares with nobody and has no number.
    """
    turn = {m: number for number, k in enumerate(kernels) for m in k.members}
    ends: dict[Value, int] = {}
    for value in stored:
        users = program.users(value)
        ends[value] = max((turn[user] for user in users), default=turn[value])
    free: defaultdict[object, list[int]] = defaultdict(list)
    given: dict[Value, int] = {}
    for number, kernel in enumerate(kernels):
        for value in given:
            if ends[value] == number - 1:
                free[value.type].append(given[value])
        for value in kernel.members:
            if value in stored and not _meets_peers(program, kernel, value):
                pool = free[value.type]
                given[value] = pool.pop() if pool else len(set(given.values()))
    return given


def _meets_peers(program: Program, kernel: Kernel, value: Value) -> bool:
    return kernel.spreads(value) or any(map(reads_peers, program.users(value)))

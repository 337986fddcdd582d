"""What to say when a call fails: who is at fault, what differs, who waits for whom."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

from coconet.errors import (
    CollectiveTimeout,
    InternalError,
    PeerFailed,
    RanksDisagree,
    RunError,
)
from coconet.runtime.library import (
    ABORTED,
    BAD,
    DIED,
    DISAGREE,
    DONE,
    LATE,
    LEFT,
    MAX_RANKS,
    TIMEOUT,
    Fault,
    Report,
    library,
)
from coconet.runtime.world import World

__all__ = ["Scalars", "explain", "fault", "lagging"]

Scalars = Sequence[tuple[str, str]]  # (name, "f64" or "i64") of a program's scalars

_STATES = {
    "R": "running, state R",
    "S": "sleeping, state S",
    "D": "uninterruptible, state D",
    "T": "stopped, state T",
    "t": "stopped by a debugger, state t",
    "Z": "dead, state Z",
    "X": "dead, state X",
}


def fault(world: World) -> Fault:
    """Return the facts of the last failure, and who has not reached this point."""
    found = Fault()
    library().cc_world_fault(world.address, found)
    return found


def lagging(world: World) -> str:
    """Name the ranks that this one waits for, each with what its process does."""
    return "; ".join(_process(world, rank) for rank in _bits(fault(world).missing))


def explain(
    world: World, code: int, *, waits: Sequence[str], scalars: Scalars
) -> RunError:
    """Return the error for a return code of a kernel.

    waits names the points of the plan at which a rank can wait, 0 is the arrival.
    """
    if code == DISAGREE:
        return _disagreement(world, scalars)
    if code == BAD:
        return _refusal(world)
    if code in (TIMEOUT, ABORTED):
        return _end(world, waits)
    raise InternalError("a kernel returned an unknown code", got=code)


def _disagreement(world: World, scalars: Scalars) -> RanksDisagree:
    reports = [_report(world, rank) for rank in range(world.size)]
    first = reports[0]
    wrong = [rank for rank, each in enumerate(reports) if _said(each) != _said(first)]
    rank, other = wrong[0], reports[wrong[0]]
    mine, theirs = _lines(first), _lines(other)
    if mine != theirs:
        need = "; ".join(line for line in mine if line not in theirs)
        got = "; ".join(line for line in theirs if line not in mine)
        what = "call different things"
    elif list(first.fingerprint) != list(other.fingerprint):
        what = "run different kernels of one program"
        need, got = (_hex(each.fingerprint) for each in (first, other))
    else:
        values = [_values(each, scalars) for each in (first, other)]
        pairs = [pair for pair in zip(*values, strict=False) if pair[0] != pair[1]]
        need, got = ("; ".join(side) for side in zip(*pairs, strict=True))
        what = "pass different scalars"
    return RanksDisagree(
        f"rank {rank} and rank 0 {what}{_first_line(first)}",
        got=f"rank {rank}: {got or '(nothing more)'}",
        need=f"rank 0: {need or '(nothing more)'}",
        fix="make the same call, with equal scalars, on every rank",
        ranks=tuple(wrong),
    )


def _refusal(world: World) -> RanksDisagree:
    reports = [_report(world, rank) for rank in range(world.size)]
    wrong = [rank for rank, each in enumerate(reports) if each.status != DONE]
    return RanksDisagree(
        f"rank {wrong[0]} refused this call, so no rank ran it",
        got="; ".join(_lines(reports[wrong[0]])),
        ranks=tuple(wrong),
    )


def _end(world: World, waits: Sequence[str]) -> CollectiveTimeout | PeerFailed:
    """Explain the abort word, which names one cause on all ranks."""
    found = fault(world)
    rank, reason = found.rank, found.abort >> 32
    where = waits[found.where] if found.where < len(waits) else f"wait {found.where}"
    report = _report(world, rank)
    after = f"after {report.calls} calls; this rank began {_calls(world)}"
    if reason == LATE and rank == world.rank:
        return CollectiveTimeout(
            "the other ranks gave up waiting for this one",
            got=f"rank {rank} came to {where} too late",
            fix="set COCONET_TIMEOUT higher if this rank was only slow",
            ranks=(rank,),
        )
    if reason == LATE:
        missing = _bits(found.missing) or (rank,)
        return CollectiveTimeout(
            f"{_ranks(missing)} did not come to {where} within {world.timeout_s:g} s",
            got="; ".join(_process(world, each) for each in missing),
            need="every rank makes the same calls in the same order",
            fix="set COCONET_TIMEOUT higher if it was only slow",
            ranks=missing,
        )
    what, got = {
        DIED: ("died", f"its process ended {after}"),
        LEFT: ("finished", f"it left {after}; uneven batches?"),
    }.get(reason, ("raised", report.farewell.decode("ascii", "replace")))
    return PeerFailed(
        f"rank {rank} {what} while rank {world.rank} was at {where}",
        got=got,
        ranks=(rank,),
    )


def _process(world: World, rank: int) -> str:
    """Say what a rank's process does, from /proc."""
    calls = _report(world, rank).calls
    begun = f"{calls} calls begun, {_calls(world)} here"
    try:
        information = Path(f"/proc/self/fdinfo/{world.pidfds[rank]}").read_text()
        pid = next(
            line.split()[1]
            for line in information.splitlines()
            if line.startswith("Pid:")
        )
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, StopIteration):
        return f"rank {rank}: its process is gone, {begun}"
    return f"rank {rank}: pid {pid}, {_STATES.get(state, state)}, {begun}"


def _report(world: World, rank: int) -> Report:
    report = Report()
    library().cc_world_report(world.address, rank, report)
    return report


def _calls(world: World) -> int:
    return _report(world, world.rank).calls


def _said(report: Report) -> tuple[bytes, bytes]:
    return bytes(report.fingerprint), bytes(report.scalars)[: 8 * report.num_scalars]


def _lines(report: Report) -> list[str]:
    return report.text.decode("ascii", "replace").splitlines()


def _first_line(report: Report) -> str:
    lines = _lines(report)
    return f" in {lines[0]}" if lines else ""


def _values(report: Report, scalars: Scalars) -> list[str]:
    """Return `name = value` of each scalar; of a NaN also the bits: they may differ."""
    values: list[str] = []
    for index in range(report.num_scalars):
        bits: int = report.scalars[index]
        name, dtype = (
            scalars[index] if index < len(scalars) else (f"scalar {index}", "i64")
        )
        value = (
            struct.unpack("d", struct.pack("q", bits))[0] if dtype == "f64" else bits
        )
        which = "" if value == value else f" ({bits & (1 << 64) - 1:#x})"
        values.append(f"{name} = {value!r}{which}")
    return values


def _hex(fingerprint: ctypes.Array[ctypes.c_uint64]) -> str:
    return " ".join(f"{word:016x}" for word in fingerprint)


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(rank for rank in range(MAX_RANKS) if mask >> rank & 1)


def _ranks(ranks: Sequence[int]) -> str:
    names = ", ".join(map(str, ranks))
    return f"rank {names}" if len(ranks) == 1 else f"ranks {names}"

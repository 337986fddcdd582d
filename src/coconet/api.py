"""What users call on a program or a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coconet.ir import DType, Program

if TYPE_CHECKING:
    import numpy as np

    from coconet.runtime.world import World
    from coconet.schedule import Draft, Schedule
    from coconet.verification import Report

    Schedulable = Program | Schedule | Draft

__all__ = ["compile", "empty", "init", "spawn", "verify", "zeros"]


def _schedule_of(what: Schedulable) -> Schedule:
    from coconet.schedule import Draft

    if isinstance(what, Program):
        return what.schedule().schedule
    return what.schedule if isinstance(what, Draft) else what


def compile(what: Schedulable, *, group: Any = None, backend: str = "c") -> Any:
    """Compile a program or schedule for the processes of a group; returns a step.

    group    what the program's group is bound to: a World (None: the one that `init`
             makes) for "c", a torch ProcessGroup (None: torch's default) for "eager"
    backend  "c": one kernel, symmetric shared memory, exact bits; "eager": op by op on
             torch.distributed, any device

    Raises GroupError if the program's group has another size; UnsupportedError,
    CompileError, NoCompiler; ValueError for an unknown backend.
    """
    from coconet.backends.table import load_backend

    program = _schedule_of(what).result
    make = load_backend(backend)
    if backend == "eager":
        return make(program, group)
    from coconet.lower import lower

    world = group or init()
    return make(lower(program, world.size), world)


def verify(
    what: Schedulable,
    *,
    ranks: Sequence[int] | None = None,
    sizes: Sequence[Mapping[str, int]] | None = None,
) -> Report:
    """Check that a schedule keeps every bit of its program, on simulated ranks.

    Runs the program as written, as scheduled, and the plan under seeded interleavings,
    at sizes around every border (or those given: numbers for the symbolic dims), on 1
    to 4 ranks (or those given, or as many as the program's group has).  The command
    `coconet verify` does the same on real processes.

    Returns the report; raises VerificationError that names the first difference.
    """
    from coconet.verification import verify_simulated

    schedule = _schedule_of(what)
    fixed = [group.size for group in schedule.program.groups if group.size]
    counts = ranks or fixed or (1, 2, 3, 4)
    report = verify_simulated({"schedule": schedule}, ranks=counts, sizes=sizes)
    report.raise_if_wrong()
    return report


def init(timeout_s: float | None = None) -> World:
    """Join the run that this process was started in, and return its world.

    Started by `coconet run`, `spawn` or torchrun, the world has all ranks of this host;
    started alone, it has one.  Later calls return the same world.  timeout_s is seconds
    that a rank waits for its peers (default COCONET_TIMEOUT, 300).

    Raises RendezvousError, NoCompiler, SharedMemoryFull.
    """
    from coconet.runtime import world

    return world.init(timeout_s)


def empty(
    shape: Sequence[int], dtype: DType, group: World | None = None
) -> np.ndarray[Any, Any]:
    """Return an array in symmetric memory, which peers can address without a copy.

    The contents are undefined.  Raises SharedMemoryFull; TypeError for what is no dtype
    of coconet.
    """
    elements = getattr(dtype, "numpy", None)
    if elements is None:
        raise TypeError(f"a dtype is cc.f32 or another of coconet, got {dtype!r}")
    return (group or init()).pool.empty(tuple(shape), elements)


def zeros(
    shape: Sequence[int], dtype: DType, group: World | None = None
) -> np.ndarray[Any, Any]:
    """Return an array of zeros in symmetric memory.  Raises SharedMemoryFull."""
    array = empty(shape, dtype, group)
    array[...] = 0
    return array


def spawn(function: Any, ranks: int, *args: Any, **options: Any) -> list[Any]:
    """Call a function in `ranks` fresh processes of one run; returns their results.

    Arguments and results are numbers, strings, lists, dicts and arrays.
    Raises PeerFailed with the rank and its traceback.
    """
    from coconet.runtime import launch

    return launch.spawn(function, ranks, *args, **options)

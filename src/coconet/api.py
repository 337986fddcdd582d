"""What users call on a program or a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coconet.errors import NoCompiler
from coconet.ir import DType, Program
from coconet.options import checked_counts, checked_seconds

if TYPE_CHECKING:
    import numpy as np

    from coconet.runtime.world import World
    from coconet.schedule import Draft, Schedule
    from coconet.tuning.explain import Explanation
    from coconet.tuning.tune import Tuned
    from coconet.verification import Report

    Schedulable = Program | Schedule | Draft

__all__ = [
    "compile",
    "empty",
    "explain",
    "init",
    "spawn",
    "tune",
    "verify",
    "zeros",
]


def _schedule_of(what: Any) -> Schedule:
    from coconet.schedule import Draft, Schedule

    if isinstance(what, Program):
        return what.schedule().schedule
    found = what.schedule if isinstance(what, Draft) else what
    if not isinstance(found, Schedule):
        raise TypeError(f"not a program, schedule or draft: {what!r}")
    return found


def _world(group: Any) -> World:
    from coconet.runtime.world import World

    if group is None:
        return init()
    if not isinstance(group, World):
        raise TypeError(f"group is a World, as coconet.init() returns, got {group!r}")
    return group


def compile(what: Schedulable, *, group: Any = None, backend: str = "c") -> Any:
    """Compile a program or schedule for the processes of a group; returns a step.

    group    what the program's group is bound to: a World (None: the one that `init`
             makes) for "c", a torch ProcessGroup (None: torch's default) for "eager"
    backend  "c": one kernel, symmetric shared memory, exact bits; "eager": op by op on
             torch.distributed, any device; "interpreter": numpy in one process, slow,
             which takes the place of "c" there if no C compiler is found

    Raises GroupError if the program's group has another size; UnsupportedError,
    CompileError, NoCompiler; ValueError for an unknown backend.
    """
    from coconet.backends.table import load_backend

    schedule = _schedule_of(what)
    make = load_backend(backend)
    if backend == "eager":
        return make(schedule.result, group)
    if backend == "interpreter":
        return make(schedule.result)
    from coconet.lower import lower

    try:
        world = _world(group)
    except NoCompiler as error:
        from coconet.backends.interpreter import without_compiler

        return without_compiler(schedule.result, error)
    step = make(lower(schedule.result, world.size), world)
    step.schedule = schedule
    return step


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
    counts = (fixed or (1, 2, 3, 4)) if ranks is None else ranks
    report = verify_simulated({"schedule": schedule}, ranks=counts, sizes=sizes)
    report.raise_if_wrong()
    return report


def tune(
    program: Program,
    *,
    group: World | None = None,
    sizes: Mapping[str, int] | None = None,
    slice_state: Sequence[str] = (),
    time_box_s: float = 8.0,
    limit: int = 64,
    arguments: Mapping[str, float] | None = None,
    fresh: bool = False,
    strict: bool = False,
    **dims: int,
) -> Tuned:
    """Find the fastest equal of a program on this machine; every rank calls it.

    The schedules that may be fastest are compiled and timed in turns, on tensors of the
    tuner's own; the program without fusions is always among them.  What wins is the
    same on every rank, and is remembered: the next call only compiles it.  Ctrl-C ends
    the timing and keeps the best so far.

    group        the World (None: the one that `init` makes)
    sizes, dims  numbers of the symbolic dims, as a dict or by name
    slice_state  inputs that the step gets and keeps in pieces
    time_box_s   seconds after which no turn begins, once every schedule had one
    limit        of schedules to look at
    arguments    numbers of scalars to time with
    fresh        time again, whatever is remembered; else only what was remembered in a
                 hurry, if the time box is longer now
    strict       raise ScheduleError if nothing is faster than without fusions

    Returns a step like `compile`'s, with its schedule, knobs and report.
    Raises  TypeError, ValueError: an option that cannot be meant; RanksDisagree: ranks
            ask for different things; ScheduleError, GroupError, UnsupportedError,
            ResourceError
    """
    from coconet.tuning.progress import terminal
    from coconet.tuning.request import Request
    from coconet.tuning.tune import tune as run

    request = Request.of(
        program,
        sizes={**(sizes or {}), **dims},
        slice_state=slice_state,
        time_box_s=time_box_s,
        limit=limit,
        scalars=arguments,
    )
    world = _world(group)
    tuned = run(request, world, progress=terminal(world.rank), fresh=fresh)
    if strict:
        tuned.report.raise_if_nothing_won()
    return tuned


def explain(
    what: Any,
    *,
    ranks: int | None = None,
    sizes: Mapping[str, int] | None = None,
    slice_state: Sequence[str] = (),
    **dims: int,
) -> Explanation:
    """Say what a schedule does, what is refused and why, and what it moves.

    what         a program, schedule or draft, or a compiled or tuned step
    ranks        how many (None: what the step or the program's group says, else 2)
    sizes, dims  numbers of the symbolic dims, as a dict or by name, to count bytes; a
                 program that was tuned at such sizes is explained as it was tuned
    slice_state  with these inputs in pieces

    Raises  TypeError, ValueError: no such thing can be explained; GroupError
    """
    from coconet.tuning.explain import explain as run

    wanted = {**(sizes or {}), **dims}
    return run(what, ranks=ranks, sizes=wanted, slice_state=slice_state)


def init(timeout_s: float | None = None) -> World:
    """Join the run that this process was started in, and return its world.

    Started by `coconet run`, `spawn` or torchrun, the world has all ranks of this host;
    started alone, it has one.  Later calls return the same world.  timeout_s is seconds
    that a rank waits for its peers (default COCONET_TIMEOUT, 300).

    Raises RendezvousError, NoCompiler, SharedMemoryFull.
    """
    from coconet.runtime import world

    if timeout_s is not None:
        timeout_s = checked_seconds("timeout_s", timeout_s)
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
    extents = checked_counts("shape", shape, least=0)
    return _world(group).pool.empty(extents, elements)


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

"""Run a script or a function on n ranks and say once what went wrong.

A rank is a fresh interpreter in a process group of its own, so that what it starts is
stopped with it. It dies with its launcher, whatever kills that.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import sysconfig
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from coconet.errors import CollectiveTimeout, PeerFailed
from coconet.options import checked_count, checked_seconds
from coconet.runtime.ranks import Ended, Job, run_job
from coconet.runtime.travel import dumps, is_importing_main, reference

__all__ = ["job_of_call", "root_cause", "run_script", "spawn"]

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAST_LINES = 20


def run_script(
    n: int,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    pin: bool = True,
) -> int:
    """Run a script as n ranks and return the exit code of the whole.

    argv  the script, or `-m` and a module, and its arguments
    env   variables of the ranks beside those of this process
    pin   give each rank its equal share of the cpus, where there are enough

    Prints  a failure once: the root cause, then who went down with it
    Blocks  until every rank has ended
    """
    if not argv:
        raise ValueError("no script was given")
    job = Job(_checked(n), _token(), _environment(n, env), tuple(argv), pin=pin)
    with _wake_on_signals() as wake:
        ended, stopped_by = run_job(job, wake=wake)
    if stopped_by:
        _say(f"coconet: {_interruption(stopped_by)}; {n} ranks stopped")
        return 128 + stopped_by
    cause = root_cause(ended)
    if cause is None:
        return 0
    where = f"  ({cause.raised.at})" if cause.raised and cause.raised.at else ""
    block = [f"coconet: {_headline(cause, n)}{where}", *_details(cause, ended)]
    _say("\n  ".join(block))
    return cause.returncode if cause.returncode > 0 else 128 - cause.returncode


def spawn(
    function: Callable[..., object],
    n: int,
    *args: object,
    timeout_s: float | None = None,
    **kwargs: object,
) -> list[object]:
    """Call a function in n fresh interpreters; return what each rank returned, by rank.

    The function is imported by name, or travels as source from a notebook. Arguments
    and results may be numbers, str, bytes, numpy arrays, and lists, tuples and dicts of
    them.

    Blocks  until every rank has ended
    Raises  PeerFailed: a rank raised or died; names the first one and its traceback
            CollectiveTimeout: ranks had not returned after timeout_s
            TypeError: an argument or result does not travel
    """
    job = job_of_call(n, function, args, kwargs, timeout_s=timeout_s)
    ended, stopped_by = run_job(job)
    cause = root_cause(ended)
    if stopped_by and cause is None:
        late = tuple(end.rank for end in ended if end.was_stopped)
        raise CollectiveTimeout(
            f"{len(late)} of {n} ranks had not returned after {timeout_s:g} s",
            got=f"rank {late[0]} was here:\n{ended[late[0]].stderr}",
            ranks=late,
        )
    if cause:
        raise PeerFailed(
            _headline(cause, n),
            got="\n        ".join(_details(cause, ended)),
            at=cause.raised.at if cause.raised else "",
            ranks=(cause.rank,),
        )
    return [end.result for end in ended]


def job_of_call(
    n: int,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Job:
    """Describe the job that calls a function on n ranks."""
    if is_importing_main():
        raise RuntimeError(
            "the script calls spawn while a rank imports it; "
            'put that call under `if __name__ == "__main__":`'
        )
    if timeout_s is not None:
        timeout_s = checked_seconds("timeout_s", timeout_s)
    call = {
        "path": [str(place) for place in sys.path],
        "function": reference(function),
        "args": list(args),
        "kwargs": dict(kwargs),
    }
    return Job(
        _checked(n),
        _token(),
        _environment(n, env),
        call=dumps(call),
        timeout_s=timeout_s,
    )


def _checked(n: int) -> int:
    return checked_count("the number of ranks", n)


def _token() -> str:
    return secrets.token_hex(8)


def _environment(n: int, extra: Mapping[str, str] | None) -> dict[str, str]:
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if n > 1:
        env.setdefault("OMP_NUM_THREADS", "1")
    env.update(extra or {})
    # where this package lies, if an interpreter would not look there by itself
    root = str(Path(__file__).parents[2])
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        path = env.get("PYTHONPATH", "")
        env["PYTHONPATH"] = os.pathsep.join([root, *([path] if path else [])])
    return env


@contextlib.contextmanager
def _wake_on_signals() -> Generator[int | None]:
    """Turn signals into bytes of a pipe, so that one loop handles everything."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    wake, alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def note(number: int, _: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(alarm, bytes([number]))

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):  # ignored: as under nohup
                signal.signal(number, note)
        yield wake
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        os.close(wake)
        os.close(alarm)


def root_cause(ended: Sequence[Ended]) -> Ended | None:
    """Return the rank whose failure made the others fail, None if none failed.

    A rank that only saw a peer fail is not the cause. A process that was killed cannot
    report, so its peers' errors may be seen before its death; but SIGABRT is how some
    libraries react to a peer's death.
    """
    failed = [end for end in ended if end.has_failed and not end.was_stopped]

    def order(end: Ended) -> tuple[bool, bool, int]:
        is_victim = end.raised is not None and end.raised.kind == PeerFailed.__name__
        was_killed = end.returncode < 0 and end.returncode != -signal.SIGABRT
        time_ns = end.raised.time_ns if end.raised else end.ended_ns
        return is_victim, not was_killed, time_ns

    return min(failed, key=order, default=None)


def _headline(cause: Ended, n: int) -> str:
    who = f"rank {cause.rank} of {n}"
    if cause.returncode < 0:
        return f"{who} was killed by {signal.Signals(-cause.returncode).name}"
    if cause.raised:
        return f"{who} raised {cause.raised.kind}: {cause.raised.message}".rstrip(": ")
    if cause.returncode:
        return f"{who} ended with exit code {cause.returncode}"
    return f"{who} ended before the function returned"


def _details(cause: Ended, ended: Sequence[Ended]) -> list[str]:
    """Return the cause's traceback or last lines, and one line about the others."""
    lines: list[str] = []
    if cause.raised:
        lines += cause.raised.text.splitlines()
    elif last := cause.stderr.splitlines()[-LAST_LINES:]:
        lines += ["its last lines on stderr:", *last]
    others = [end for end in ended if end is not cause]
    groups = {
        "also failed": [x for x in others if x.has_failed and not x.was_stopped],
        "stopped": [x for x in others if x.was_stopped],
    }
    victims = [
        f"{what}: {', '.join(_victim(end) for end in group)}"
        for what, group in groups.items()
        if group
    ]
    return lines + (["; ".join(victims)] if victims else [])


def _victim(end: Ended) -> str:
    why = end.raised.kind if end.raised and not end.was_stopped else ""
    return f"rank {end.rank}" + (f" ({why})" if why else "")


def _interruption(number: int) -> str:
    return (
        "interrupted"
        if number == signal.SIGINT
        else f"got {signal.Signals(number).name}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

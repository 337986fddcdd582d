"""What a launched interpreter runs: `python -m coconet.runtime.child ORDER [argv]`.

ORDER is JSON: the launcher's pid, the cpus to run on, the file descriptor to report to
and, for `spawn`, the one that holds the call (0: none). Without a call, argv is a
script, or `-m` and a module, with its arguments.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from coconet.errors import CoconetError
from coconet.runtime.travel import dumps, loads, resolve

__all__ = ["Raised", "main"]

PR_SET_PDEATHSIG = 1
# frames of the launcher's own machinery are of no use to who reads a traceback
OWN_FILES = (__file__, "<frozen runpy>", "<frozen importlib")
PACKAGE = f"{Path(__file__).parents[1]}/"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as its rank describes it.

    kind     the name of its class
    message  its first line
    text     the traceback
    at       file:line where it was raised, or where our code was called
    time_ns  when, on the host's monotonic clock
    """

    kind: str
    message: str
    text: str
    at: str
    time_ns: int


def main() -> None:
    """Do what the launcher ordered."""
    order = json.loads(sys.argv[1])
    _die_with(order["launcher"])
    if order["cpus"]:
        os.sched_setaffinity(0, order["cpus"])
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    files = [order["report"]] + ([order["call"]] if order["call"] else [])
    for file in files:
        os.set_inheritable(file, False)
    sys.excepthook = functools.partial(_report_exception, order["report"])
    if order["call"]:
        _answer(order["call"], order["report"])
    else:
        _run_script(sys.argv[2:])


def _die_with(launcher: int) -> None:
    """Have the kernel kill this process when its launcher dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:  # it died before we asked
        os._exit(1)


def _run_script(argv: list[str]) -> None:
    import runpy

    if argv[0] == "-m":
        sys.argv = argv[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        sys.path.insert(0, str(Path(argv[0]).resolve().parent))
        runpy.run_path(argv[0], run_name="__main__")


def _answer(call: int, report: int) -> None:
    """Call the function and report what it returns."""
    length = os.fstat(call).st_size
    order = cast("dict[str, Any]", loads(_read(call, length)))
    sys.path[:] = order["path"]
    function = resolve(order["function"])
    result = function(*order["args"], **order["kwargs"])
    _write(report, {"result": result})


def _read(file: int, length: int) -> bytes:
    """Read without moving the position, which the ranks share."""
    parts: list[bytes] = []
    done = 0
    while done < length:
        parts.append(os.pread(file, length - done, done))
        done += len(parts[-1])
    return b"".join(parts)


def _write(file: int, report: object) -> None:
    blob = memoryview(dumps(report))
    os.ftruncate(file, 0)
    done = 0
    while done < len(blob):
        done += os.pwrite(file, blob[done:], done)


def _report_exception(
    report: int,
    kind: type[BaseException],
    error: BaseException,
    frames: TracebackType | None,
) -> None:
    """Tell the launcher, which prints the cause once for all ranks."""
    while frames and frames.tb_frame.f_code.co_filename.startswith(OWN_FILES):
        frames = frames.tb_next
    lines = str(error).splitlines()
    every = traceback.extract_tb(frames)
    place = [at for at in every if not at.filename.startswith(PACKAGE)] or every
    at = error.at if isinstance(error, CoconetError) else ""
    raised = Raised(
        kind=kind.__name__,
        message=lines[0] if lines else "",
        text="".join(traceback.format_exception(kind, error, frames)),
        at=at or (f"{place[-1].filename}:{place[-1].lineno}" if place else ""),
        time_ns=time.monotonic_ns(),
    )
    _write(report, {"raised": asdict(raised)})


if __name__ == "__main__":
    main()

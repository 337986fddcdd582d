"""The C runtime as ctypes sees it: its structs, return codes and functions.

The structs mirror runtime.h and runtime.c; `library` checks ABI number and sizes.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char, c_int, c_int32, c_int64, c_uint32, c_uint64
from ctypes import c_char_p as text_p
from ctypes import c_void_p as address
from pathlib import Path
from typing import ClassVar

from coconet.errors import InternalError
from coconet.runtime.build import build

__all__ = [
    "ABI",
    "ABORTED",
    "AGAIN",
    "BAD",
    "DIED",
    "DISAGREE",
    "DONE",
    "FAREWELL_BYTES",
    "INBOX_BYTES",
    "LATE",
    "LEFT",
    "MAX_RANKS",
    "MAX_SCALARS",
    "MAX_THREADS",
    "RAISED",
    "TEXT_BYTES",
    "TIMEOUT",
    "Args",
    "Fault",
    "Inboxed",
    "Report",
    "header_text",
    "library",
    "restore_error",
]

ABI = 3
INBOX_BYTES = 1 << 16
MAX_RANKS = 64
MAX_THREADS = 64
MAX_SCALARS = 32
TEXT_BYTES = 4096
FAREWELL_BYTES = 512

# what a kernel returns
DONE, AGAIN, DISAGREE, BAD, TIMEOUT, ABORTED = range(6)
# why a run ended
DIED, LEFT, RAISED, LATE = range(1, 5)


class Args(ctypes.Structure):
    """cc_args: one bound call."""

    _fields_: ClassVar = [
        ("world", address),
        ("fingerprint", c_uint64 * 4),
        ("status", c_uint32),
        ("num_buffers", c_uint32),
        ("num_scalars", c_uint32),
        ("arrived", c_uint32),
        ("threads", c_int32),
        ("scratch", address),
        ("deadline_ns", c_uint64),
        ("table", c_int64),
        ("text_version", c_uint64),
        ("text", text_p),
        ("pointers", address),
        ("slots", address),
        ("words", address),
        ("scalars", address),
        ("consts", address),
        ("round", address),
        ("num_inboxed", c_int64),
        ("inboxed", address),
    ]


class Inboxed(ctypes.Structure):
    """cc_inboxed: an argument that peers read in its owner's inbox."""

    _fields_: ClassVar = [("buffer", c_int32), ("offset", c_int32), ("bytes", c_int64)]


class Python(ctypes.Structure):
    """cc_python: functions of Python's C API that the runtime calls."""

    _fields_: ClassVar = [
        (name, address)
        for name in ("take_gil", "drop_gil", "handle_signals", "fetch_error")
    ]


class Report(ctypes.Structure):
    """cc_report: what a rank said on arrival, and how it fares."""

    _fields_: ClassVar = [
        ("fingerprint", c_uint64 * 4),
        ("scalars", c_int64 * MAX_SCALARS),
        ("calls", c_uint64),
        ("status", c_uint32),
        ("num_scalars", c_uint32),
        ("life", c_uint32),
        ("where", c_uint32),
        ("text", c_char * TEXT_BYTES),
        ("farewell", c_char * FAREWELL_BYTES),
    ]


class Fault(ctypes.Structure):
    """cc_fault: the last failure; bit q of `missing` is a rank not yet here."""

    _fields_: ClassVar = [
        ("abort", c_uint64),
        ("missing", c_uint64),
        ("rank", c_int32),
        ("where", c_uint32),
        ("torn", c_uint32),
    ]


_PROTOTYPES = {
    "cc_abi": (c_uint32, ()),
    "cc_header_bytes": (c_uint64, ()),
    "cc_args_bytes": (c_uint64, ()),
    "cc_use_python": (None, (POINTER(Python),)),
    "cc_map": (address, (c_int, c_uint64)),
    "cc_unmap": (None, (address, c_uint64)),
    "cc_world_create": (
        address,
        (
            c_int32,
            c_int32,
            address,
            POINTER(c_int),
            POINTER(c_uint64),
            POINTER(c_int),
            c_uint64,
            c_uint64,
            c_uint32,
        ),
    ),
    "cc_world_base": (address, (address, c_int32)),
    "cc_world_leave": (None, (address,)),
    "cc_world_destroy": (None, (address,)),
    "cc_world_arrive": (c_int32, (address,)),
    "cc_world_raised": (None, (address, text_p)),
    "cc_world_interrupt": (c_int32, (address, POINTER(address))),
    "cc_world_threads": (c_int32, (address, c_int32)),
    "cc_world_fault": (None, (address, POINTER(Fault))),
    "cc_world_report": (None, (address, c_int32, POINTER(Report))),
}


_FILES = ("runtime.c", "rounds.c", "threads.c", "private.h", "runtime.h")

# of Python's C API, in the order of cc_python
_PYTHON = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
)


# Takes type, value and trace of a fetched error, and raises it.
restore_error = ctypes.PYFUNCTYPE(None, address, address, address)(
    ("PyErr_Restore", ctypes.pythonapi)
)


def header_text() -> str:
    """Return runtime.h, which every kernel includes."""
    return _text("runtime.h")


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


@functools.cache
def library() -> ctypes.CDLL:
    """Compile, on first use, and load the C runtime.

    Blocks  while the compiler runs, about a second, once per machine
    Raises  NoCompiler, CompileError
    """
    path = build("runtime", {name: _text(name) for name in _FILES})
    loaded = ctypes.CDLL(str(path), use_errno=True)
    for name, (result, arguments) in _PROTOTYPES.items():
        function = loaded[name]
        function.restype = result
        function.argtypes = arguments
        setattr(loaded, name, function)
    got = (loaded.cc_abi(), loaded.cc_args_bytes())
    if got != (ABI, ctypes.sizeof(Args)):
        raise InternalError(
            "library.py and runtime.h differ",
            got=f"abi {got[0]}, cc_args {got[1]} bytes",
            need=f"abi {ABI}, cc_args {ctypes.sizeof(Args)} bytes",
        )
    functions = (ctypes.cast(ctypes.pythonapi[name], address) for name in _PYTHON)
    loaded.cc_use_python(Python(*functions))
    return loaded

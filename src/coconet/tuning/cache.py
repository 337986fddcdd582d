"""Decisions kept between runs, in the folder of the compile cache."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from importlib.metadata import version
from pathlib import Path

from coconet.errors import CacheError
from coconet.runtime.build import find_compiler
from coconet.runtime.cache import read_note, write_note
from coconet.schedule.json import MAX_BYTES
from coconet.settings import settings
from coconet.tuning.canonical import canonical
from coconet.tuning.request import Request

__all__ = ["note_name", "recall", "remember", "warn_of"]

_log = logging.getLogger("coconet")


def note_name(request: Request, ranks: int) -> str:
    """Return the name of the file that keeps the decision about a request.

    It depends on the program and the names in it, the sizes up to powers of two, the
    state kept in pieces, the ranks and their threads, this machine, its compiler, and
    coconet's version.
    """
    program = request.program
    facts = [
        canonical(program),
        [value.name for value in (*program.inputs, *program.values)],
        {name: size.bit_length() for name, size in request.sizes.items()},
        sorted(request.slice_state),
        ranks,
        settings().threads,
        _machine(),
        version("coconet"),
    ]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return f"tuned-{digest[:32]}.json"


def _machine() -> list[str]:
    model = [platform.machine()]
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model.append(line)
            break
    return [*model, str(os.cpu_count()), find_compiler().identity]


def recall(name: str) -> bytes:
    """Return what is kept under a name, b"" if there is nothing of use."""
    try:
        return read_note(name, most_bytes=MAX_BYTES) or b""
    except CacheError as error:
        warn_of(error)
        return b""


def remember(name: str, text: str) -> None:
    """Keep a decision; a cache that cannot be written costs a warning, not the run."""
    try:
        write_note(name, text.encode())
    except (CacheError, OSError) as error:
        _log.warning("coconet: the tuning is not kept: %s", _one_line(error))


def warn_of(error: CacheError) -> None:
    """Say that what was kept is of no use."""
    _log.warning("coconet: a kept tuning is not used: %s", _one_line(error))


def _one_line(error: Exception) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines())

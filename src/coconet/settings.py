"""Process settings.  The environment is read here and nowhere else.

Variable               Default                  Meaning
COCONET_CACHE          the user's cache folder  where compiled kernels are kept
COCONET_TIMEOUT        300                      seconds a rank waits for its peers
COCONET_WARN           10                       seconds until a wait is reported
COCONET_MEMORY         the machine's memory     bytes of address space of a segment
COCONET_THREADS        cores per rank, <= 16    threads that a rank may compute with
COCONET_RANK, _SIZE, _RUN                       set by `coconet run` and `spawn`
CC                     gcc, clang, ziglang      the C compiler, as a command line
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Launch", "Settings", "launch", "settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says about this process; see the module's table.

    timeout_s and warn_s are seconds, segment_bytes is bytes (0: the machine's memory),
    threads counts those of one rank (0: as many as it has cores, at most 16).
    """

    cache_dir: Path | None
    timeout_s: float
    warn_s: float
    segment_bytes: int
    threads: int
    compiler: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """Who this process is in a run, as its launcher said.

    rank and size count processes; run names the run, unique on this host.
    """

    rank: int
    size: int
    run: str


def settings() -> Settings:
    """Read the process settings from the environment.

    Raises ValueError if a number does not parse or is out of range.
    """
    cache = os.environ.get("COCONET_CACHE", "")
    return Settings(
        cache_dir=Path(cache) if cache else None,
        timeout_s=_positive("COCONET_TIMEOUT", 300.0),
        warn_s=_positive("COCONET_WARN", 10.0),
        segment_bytes=_natural("COCONET_MEMORY"),
        threads=_natural("COCONET_THREADS"),
        compiler=tuple(shlex.split(os.environ.get("CC", ""))),
    )


def launch() -> Launch | None:
    """Return this process's place in its run, or None if nothing launched it.

    Understands `coconet run` and `spawn` (COCONET_*), and torchrun (RANK, WORLD_SIZE).
    """
    env = os.environ
    if "COCONET_RANK" in env:
        return Launch(
            int(env["COCONET_RANK"]), int(env["COCONET_SIZE"]), env["COCONET_RUN"]
        )
    if "RANK" in env and "WORLD_SIZE" in env:
        run = "-".join(
            env.get(name, "0")
            for name in (
                "TORCHELASTIC_RUN_ID",
                "MASTER_PORT",
                "TORCHELASTIC_RESTART_COUNT",
            )
        )
        return Launch(int(env["RANK"]), int(env["WORLD_SIZE"]), "torchrun-" + run)
    return None


def _positive(name: str, default: float) -> float:
    text = os.environ.get(name) or default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:  # nan is not
        raise ValueError(f"{name} is a number over 0, got {text!r}")
    return value


def _natural(name: str) -> int:
    text = os.environ.get(name) or "0"
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{name} is a whole number from 0 on, got {text!r}")
    return value

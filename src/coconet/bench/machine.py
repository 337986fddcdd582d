"""The facts about this machine that a measured time depends on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from coconet.errors import NoCompiler
from coconet.runtime.build import find_compiler

__all__ = ["last_level_cache_bytes", "machine", "memory_bytes", "versions"]

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def machine() -> dict[str, object]:
    """Return the processor, the cores we may use, caches, memory and kernel."""
    return {
        "cpu": _cpu_model(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "cache_bytes": _caches(),
        "memory_bytes": memory_bytes(),
        "kernel": platform.release(),
    }


def versions() -> dict[str, str]:
    """Return the version of everything that takes part in a measurement."""
    try:
        compiler = find_compiler().version()
    except NoCompiler:
        compiler = "absent"
    return {
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("coconet", "numpy", "torch")},
        "compiler": compiler,
    }


def memory_bytes() -> int:
    """Return the size of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def last_level_cache_bytes() -> int:
    """Return the size of the largest cache, or 0 where the kernel does not say."""
    return max(_caches().values(), default=0)


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _caches() -> dict[str, int]:
    caches: dict[str, int] = {}
    for index in sorted(_CACHES.glob("index*")):
        level, kind, size = (
            (index / name).read_text().strip() for name in ("level", "type", "size")
        )
        suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
        caches[f"L{level}{suffix}"] = int(size[:-1]) * _UNITS[size[-1]]
    return caches

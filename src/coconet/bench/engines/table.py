"""The engines by the name that their records carry."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

from coconet.bench.engines.engine import Engine, Place

__all__ = ["ENGINES", "WORKLOADS", "Entry", "installed", "open_engine"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an engine is, and what its workers need.

    Looked up late: only an engine's own workers should import what it imports.

    Attributes
      module, factory  what to import from `coconet.bench.engines`
      needs            a module that must be installed
      environment      NAME=VALUE for the workers
    """

    module: str
    factory: str
    needs: str = "coconet"
    environment: tuple[str, ...] = ()


# glibc bypasses the caches only from 3/4 of the shared cache on, and a virtual machine
# may report that of its whole host: measured with 480 MiB, memcpy of 36 MiB on both
# cores moves 13 GB/s per core as it comes and 24 GB/s with this.
_STREAMING_MEMCPY = "GLIBC_TUNABLES=glibc.cpu.x86_non_temporal_threshold=0x100000"

WORKLOADS = {
    "adam": (
        "coconet",
        "coconet-unfused",
        "coconet-local-fused",
        "gloo+torch-adam-fused",
        "gloo-rs-adam-ag",
        "copy",
    ),
    "chain": ("coconet-chain", "copy"),
}
"""The engines that are timed beside each other, by workload."""

ENGINES = {
    "coconet": Entry("coconet_engine", "fused"),
    "coconet-unfused": Entry("coconet_engine", "unfused"),
    "coconet-local-fused": Entry("coconet_engine", "local_fused"),
    "coconet-chain": Entry("coconet_engine", "Chain"),
    "gloo+torch-adam-fused": Entry("gloo_adam", "GlooAdam", needs="torch"),
    "gloo-rs-adam-ag": Entry("gloo_rs_ag", "GlooRsAg", needs="torch"),
    "copy": Entry("copy", "Copy", environment=(_STREAMING_MEMCPY,)),
}


def installed() -> list[str]:
    """Return the engines that can run here."""
    return [
        name for name, entry in ENGINES.items() if importlib.util.find_spec(entry.needs)
    ]


def open_engine(name: str, place: Place) -> Engine:
    """Import an engine and take this process's place in it."""
    entry = ENGINES[name]
    module = importlib.import_module(f"coconet.bench.engines.{entry.module}")
    return getattr(module, entry.factory)(place)

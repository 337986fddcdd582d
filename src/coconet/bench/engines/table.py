"""The engines by the name that their records carry."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

from coconet.bench.engines.engine import Engine, Place
from coconet.bench.engines.vendor import INSTALL, INTEL_MPI, MPICH, Vendor

__all__ = [
    "BASELINES",
    "ENGINES",
    "SELECTABLE",
    "WORKLOADS",
    "Entry",
    "absent",
    "exchanged_dtype",
    "open_engine",
]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an engine is, and what its workers need.

    Looked up late: only an engine's own workers should import what it imports.

    Attributes
      module, factory  what to import from `coconet.bench.engines`
      needs            a module that must be installed
      environment      NAME=VALUE for the workers
      vendor           the MPI library it runs on
    """

    module: str
    factory: str
    needs: str = "coconet"
    environment: tuple[str, ...] = ()
    vendor: Vendor | None = None


# glibc bypasses the caches only from 3/4 of the shared cache on, and a virtual machine
# may report that of its whole host: measured with 480 MiB, memcpy of 36 MiB on both
# cores moves 13 GB/s per core as it comes and 24 GB/s with this.
_STREAMING_MEMCPY = "GLIBC_TUNABLES=glibc.cpu.x86_non_temporal_threshold=0x100000"

_OURS = {
    "coconet": Entry("coconet_engine", "fused"),
    "coconet-unfused": Entry("coconet_engine", "unfused"),
    "coconet-local-fused": Entry("coconet_engine", "local_fused"),
}
_CHAIN = {"coconet-chain": Entry("coconet_engine", "Chain")}
_COPY = {"copy": Entry("copy", "Copy", environment=(_STREAMING_MEMCPY,))}


def _baselines(optimizer: str) -> dict[str, Entry]:
    whole, sliced = f"+torch-{optimizer}-fused", f"-rs-{optimizer}-ag"
    found = {
        f"gloo{whole}": Entry("gloo_all_reduce", "GlooAllReduce", needs="torch"),
        f"gloo{sliced}": Entry("gloo_rs_ag", "GlooRsAg", needs="torch"),
    }
    mpis = {"mpi-mpich": ("mpich", MPICH), "mpi-intel": ("intel_mpi", INTEL_MPI)}
    for name, (factory, vendor) in mpis.items():
        for form, module in ((whole, "mpi_all_reduce"), (sliced, "mpi_rs_ag")):
            entry = Entry(module, factory, needs="torch", vendor=vendor)
            found[name + form] = entry
    return found


_LIBRARIES = {optimizer: _baselines(optimizer) for optimizer in ("adam", "sgd")}

BASELINES = {optimizer: tuple(found) for optimizer, found in _LIBRARIES.items()}
"""What people use today, by optimizer."""

WORKLOADS = {
    **{name: (*_OURS, *found) for name, found in BASELINES.items()},
    "chain": (*_CHAIN, *_COPY),
}
"""The engines that are timed beside each other, by workload."""

SELECTABLE = {
    **{name: tuple(dict.fromkeys((*w, *_COPY))) for name, w in WORKLOADS.items()},
    "never-slower": tuple(name for found in BASELINES.values() for name in found),
}
"""Those that may be asked for by name."""

ENGINES = {**_OURS, **_CHAIN, **_COPY, **_LIBRARIES["adam"], **_LIBRARIES["sgd"]}


def absent(name: str) -> str:
    """Return what an engine lacks here and the command that installs it, or ""."""
    entry = ENGINES[name]
    if not importlib.util.find_spec(entry.needs):
        return f"{entry.needs} is not installed; pip install {entry.needs}"
    if entry.vendor and not entry.vendor.is_installed():
        return f"{entry.vendor.name} is not installed; {INSTALL}"
    return ""


def exchanged_dtype(name: str, dtype: str) -> str:
    """Return the dtype in which an engine takes a step of that dtype."""
    return "f32" if ENGINES[name].vendor else dtype


def open_engine(name: str, place: Place) -> Engine:
    """Import an engine and take this process's place in it."""
    entry = ENGINES[name]
    module = importlib.import_module(f"coconet.bench.engines.{entry.module}")
    return getattr(module, entry.factory)(place)

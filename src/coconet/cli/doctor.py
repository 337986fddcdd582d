"""`coconet doctor`: what this machine has, what it lacks, and the fix for each."""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from coconet.errors import CacheError, CompileError, NoCompiler, ResourceError

__all__ = ["Check", "main", "run_checks"]

GIB = 2**30
SMALL_DEV_SHM_BYTES = GIB  # torch's data loaders need some; containers get 64 MiB
INDENT = " " * 16
OTHER_COMPILER = "set CC to a compiler that works"
MIN_TORCH = (2, 11)
KERNEL = "int coconet_doctor(void) { return 0; }\n"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report; `fix` is a concrete act unless the status is OK."""

    name: str
    status: Literal["OK", "WARN", "FAIL"]
    found: str
    fix: str = ""


def main(*, as_json: bool) -> int:
    """Print the report; return 1 if something required is missing, else 0."""
    checks = run_checks()
    is_ok = all(check.status != "FAIL" for check in checks)
    if as_json:
        rows = [asdict(check) for check in checks]
        print(json.dumps({"ok": is_ok, "checks": rows}, indent=2))
    else:
        for check in checks:
            found = check.found.replace("\n", "\n" + INDENT)
            print(f"{check.status:<6}{check.name:<10}{found}")
            if check.fix:
                print(f"{INDENT}fix: {check.fix}")
    return 0 if is_ok else 1


def run_checks() -> list[Check]:
    """Run every check, in the order of the report."""
    return [check() for check in CHECKS]


def check_versions() -> Check:
    """Say what runs: coconet, Python, the system."""
    found = f"coconet {version('coconet')}, Python {platform.python_version()}, "
    found += f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform != "linux":
        return Check("versions", "FAIL", found, "run on Linux")
    return Check("versions", "OK", found)


def check_compiler() -> Check:
    """Look for the C compiler as the runtime does, and ask its version."""
    from coconet.runtime.build import find_compiler

    try:
        compiler = find_compiler()
        found = f"{compiler.version()} ({' '.join(compiler.argv)})"
    except NoCompiler as error:
        found = 'none: only the interpreter and backend="eager" run'
        return Check("compiler", "WARN", found, error.fix)
    except CompileError as error:
        fix = error.fix or OTHER_COMPILER
        return Check("compiler", "FAIL", f"{error.what}: {error.got}", fix)
    return Check("compiler", "OK", found)


def check_kernels() -> Check:
    """Compile a kernel, and see where it is kept."""
    from coconet.runtime.build import build

    with _warnings_logged() as warnings:
        try:
            folder = build("doctor", {"doctor.c": KERNEL}).parents[1]
        except NoCompiler:
            return Check("kernels", "WARN", "not compiled", "see the compiler")
        except (CacheError, CompileError, ResourceError) as error:
            fix = error.fix or OTHER_COMPILER
            return Check("kernels", "FAIL", f"{error.what}: {error.got}", fix)
    if warnings:
        fix = "set COCONET_CACHE to a private folder, or each run compiles again"
        return Check("kernels", "WARN", "; ".join(warnings), fix)
    free = shutil.disk_usage(folder).free
    return Check("kernels", "OK", f"kept in {folder}, {free / GIB:.1f} GiB free")


def check_cores() -> Check:
    """Compare the cores of the machine with those this process may use."""
    all_cores = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0))
    quota = _cpu_quota()
    usable = min(allowed, quota) if quota else allowed
    found = f"{usable:g} usable of {all_cores}"
    if usable < 2:
        fix = "give this process 2 cores or more: two ranks on one core wait in turns"
        return Check("cores", "WARN", found, fix)
    if usable < all_cores:
        fix = f"start at most {int(usable)} ranks, or widen the cpuset or quota"
        return Check("cores", "WARN", found, fix)
    return Check("cores", "OK", found)


def check_memfd() -> Check:
    """Make anonymous shared memory, as every rank does at its start."""
    try:
        fd = os.memfd_create("coconet-doctor", os.MFD_CLOEXEC)
    except OSError as error:
        fix = "allow the system call memfd_create (a sandbox forbids it)"
        return Check("memfd", "FAIL", str(error), fix)
    try:
        os.posix_fallocate(fd, 0, 2**20)
    except OSError as error:
        fix = "raise the memory limit of this container or user"
        return Check("memfd", "FAIL", f"cannot hold 1 MiB: {error}", fix)
    finally:
        os.close(fd)
    return Check("memfd", "OK", f"{_available_memory() / GIB:.1f} GiB available")


def check_pidfd() -> Check:
    """Watch a process by a pidfd, which is how a dead rank is noticed."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        fix = "use Linux 5.3 or newer and allow the system call pidfd_open"
        return Check("pidfd", "FAIL", str(error), fix)
    return Check("pidfd", "OK", "works")


def check_dev_shm() -> Check:
    """Measure /dev/shm: coconet puts nothing there, torch's data loaders do."""
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError as error:
        return Check("/dev/shm", "WARN", str(error), "mount a tmpfs on /dev/shm")
    found = f"{usage.free / GIB:.2f} of {usage.total / GIB:.2f} GiB free"
    if usage.free < SMALL_DEV_SHM_BYTES:
        fix = "docker run --shm-size=2g, for torch's data loaders (coconet needs none)"
        return Check("/dev/shm", "WARN", found, fix)
    return Check("/dev/shm", "OK", found)


def check_torch() -> Check:
    """Look for torch, without importing it."""
    try:
        found = version("torch")
    except PackageNotFoundError:
        return Check("torch", "WARN", "not installed", "pip install 'coconet[torch]'")
    if tuple(int(word) for word in found.split(".")[:2]) < MIN_TORCH:
        return Check("torch", "WARN", found, "pip install --upgrade 'coconet[torch]'")
    return Check("torch", "OK", found)


CHECKS: tuple[Callable[[], Check], ...] = (
    check_versions,
    check_compiler,
    check_kernels,
    check_cores,
    check_memfd,
    check_pidfd,
    check_dev_shm,
    check_torch,
)


def _cpu_quota() -> float | None:
    """Return the cgroup's limit in cores, or None where there is none."""
    from coconet.runtime import cgroup

    return min(cgroup.num_cpus(), default=None)


def _available_memory() -> int:
    """Return the bytes of memory that can be used without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


class _Collector(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        """Take warnings and worse."""
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.messages.append(record.getMessage())


@contextmanager
def _warnings_logged() -> Generator[list[str]]:
    """Collect coconet's warnings instead of showing them."""
    logger, collector = logging.getLogger("coconet"), _Collector()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(collector)
    try:
        yield collector.messages
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate

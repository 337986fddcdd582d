"""The threads of one rank: what they do, what they inherit, and how they end."""

import ctypes
import os
import resource
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from coconet.errors import ResourceError
from coconet.runtime import cgroup
from coconet.runtime.build import build
from coconet.runtime.executable import Call, Kernel
from coconet.runtime.library import MAX_THREADS, header_text
from coconet.runtime.world import World
from coconet.settings import Launch

# part p of a tile writes to its share of buffer 0, to row p of buffer 1 its thread, its
# number of parts and its MXCSR, and twice: the second tile adds to the first
SHARES = """
#include "runtime.h"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
static void tile(cc_args *a, const int64_t *w, int64_t part, int64_t parts) {
  int64_t *numbers = (int64_t *)a->pointers[0];
  int64_t *facts = (int64_t *)a->pointers[1] + 3 * part;
  for (int64_t i = w[0] * part / parts; i < w[0] * (part + 1) / parts; i++)
    numbers[i] += w[1];
  facts[0] = syscall(SYS_gettid);
  facts[1] = parts;
#if defined(__x86_64__)
  facts[2] = _mm_getcsr() & ~0x3f; /* but for what happened so far */
#endif
}
int32_t cc_kernel(cc_args *a) {
  int32_t rc = a->world->arrive(a);
  if (rc) return rc;
  const __auto_type saved = cc_enter();
  a->world->run(a, tile, a->words);
  a->world->run(a, tile, a->words + 2);
  cc_leave(saved);
  return a->world->barrier(a, 1);
}
"""


class Shares:
    """The kernel on n numbers, which each call raises by 101."""

    def __init__(self, world: World, threads: int, n: int = 1000) -> None:
        self.numbers = np.zeros(n, np.int64)
        self.facts = np.zeros((MAX_THREADS, 3), np.int64)
        self.call = Call(
            world,
            Kernel(build("shares", {"kernel.c": SHARES, "runtime.h": header_text()})),
            num_buffers=2,
            words=[n, 1, n, 100],
            num_scalars=0,
            num_consts=0,
            fingerprint=(1, 2, 3, 4),
            text="program shares",
            waits=["shares", "the end"],
            threads=threads,
        )
        self.call.set_private(0, self.numbers.ctypes.data)
        self.call.set_private(1, self.facts.ctypes.data)

    def workers(self) -> list[int]:
        """The threads of all parts but the first."""
        return [int(tid) for tid in self.facts[1:, 0] if tid]


def task(tid: int, file: str) -> str:
    return Path(f"/proc/self/task/{tid}/{file}").read_text().strip()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_parts_cover_a_tile_once(alone: World, threads: int, n: int) -> None:
    shares = Shares(alone, threads, n)
    for _ in range(300):
        shares.call()
    assert (shares.numbers == 300 * 101).all()
    assert shares.facts[:threads, 1].tolist() == [threads] * threads
    assert len(set(shares.facts[:threads, 0])) == threads
    assert shares.facts[0, 0] == threading.get_native_id()


def test_threads_are_shared_by_calls_of_every_number(alone: World) -> None:
    many, few = Shares(alone, 5), Shares(alone, 3)
    for _ in range(500):
        many.call()
        few.call()
    assert (many.numbers == few.numbers).all()
    assert few.workers() == many.workers()[:2]


def test_threads_are_named_and_take_no_signals(alone: World) -> None:
    shares = Shares(alone, 3)
    shares.call()
    for number, tid in enumerate(shares.workers(), 1):
        assert task(tid, "comm") == f"coconet-{number}"
        status = dict(
            x.split(":\t") for x in task(tid, "status").splitlines() if "\t" in x
        )
        blocked = int(status["SigBlk"], 16)
        for taken in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
            assert blocked >> (taken - 1) & 1
        assert not blocked >> (signal.SIGSEGV - 1) & 1  # faulthandler's


def test_threads_inherit_the_cores_of_the_rank(alone: World) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        shares = Shares(alone, 2)
        shares.call()
    finally:
        os.sched_setaffinity(0, before)
    (tid,) = shares.workers()
    assert os.sched_getaffinity(tid) == {min(before)}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads MXCSR")
def test_arithmetic_is_ieee_on_every_thread(alone: World) -> None:
    libm = ctypes.CDLL("libm.so.6")
    saved = ctypes.create_string_buffer(64)
    libm.fegetenv(saved)
    flushing = ctypes.create_string_buffer(saved.raw, 64)
    # fenv_t ends with MXCSR at byte 28; bits 15 and 6 flush results and operands
    mxcsr = ctypes.c_uint32.from_buffer(flushing, 28)
    mxcsr.value |= 0x8040
    libm.fesetenv(flushing)
    try:
        shares = Shares(alone, 3)  # whose threads begin as their maker is
        shares.call()
    finally:
        libm.fesetenv(saved)
    assert shares.facts[:3, 2].tolist() == [0x1F80] * 3


def test_idle_threads_use_no_cpu(alone: World) -> None:
    shares = Shares(alone, 3)
    for _ in range(100):
        shares.call()

    def on_cpu_ns() -> list[str]:
        return [task(tid, "schedstat").split()[0] for tid in shares.workers()]

    deadline = time.monotonic() + 5
    while any(" S " not in task(tid, "stat") for tid in shares.workers()):
        assert time.monotonic() < deadline
    before = on_cpu_ns()
    time.sleep(0.2)
    assert on_cpu_ns() == before
    shares.call()
    assert (shares.numbers == 101 * 101).all()


def test_closing_the_world_ends_its_threads() -> None:
    made = World(Launch(0, 1, "test"), timeout_s=5, warn_s=5)
    shares = Shares(made, 4)
    shares.call()
    tids = shares.workers()
    assert len(tids) == 3
    made.close()
    assert not {str(tid) for tid in tids} & set(os.listdir("/proc/self/task"))


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1])
def test_a_number_of_threads_is_bounded(alone: World, threads: int) -> None:
    with pytest.raises(ValueError, match=f"1 to {MAX_THREADS}"):
        Shares(alone, threads)


def test_threads_that_the_system_refuses_are_an_error(alone: World) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, hard))  # no room for a stack
    try:
        with pytest.raises(ResourceError) as caught:
            alone.start_threads(30)  # more than stacks that glibc keeps
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert "COCONET_THREADS" in caught.value.fix
    shares = Shares(alone, 3)
    shares.call()
    assert (shares.numbers == 101).all()


def test_how_many_threads_a_rank_takes_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> int:
        made = World(Launch(0, 1, "test"), timeout_s=5, warn_s=5)
        made.close()
        return made.threads

    monkeypatch.delenv("COCONET_THREADS", raising=False)
    monkeypatch.setattr(cgroup, "num_cpus", lambda: [])
    assert threads() == min(len(os.sched_getaffinity(0)), 16)
    for quota in (0.5, 1.0, 1.9):
        monkeypatch.setattr(cgroup, "num_cpus", lambda: [64.0, quota])  # noqa: B023
        assert threads() == 1
    monkeypatch.setenv("COCONET_THREADS", "5")
    assert threads() == 5
    for wrong in ("-1", "65"):
        monkeypatch.setenv("COCONET_THREADS", wrong)
        with pytest.raises(ValueError, match="COCONET_THREADS"):
            threads()

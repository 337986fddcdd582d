"""A world of one rank, in this process, and what close and fork do to worlds."""

import ctypes
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from coconet.errors import RendezvousError, RunError
from coconet.runtime.library import ABI, INBOX_BYTES, Args, library
from coconet.runtime.world import World, init, world
from coconet.settings import Launch


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("COCONET_RANK", "RANK"):
        monkeypatch.delenv(name, raising=False)
    made = init()
    yield made
    made.close()


def test_init_makes_one_world(alone: World) -> None:
    assert (alone.rank, alone.size) == (0, 1)
    assert init() is alone
    assert world() is alone


def test_a_closed_world_is_replaced(alone: World) -> None:
    array = alone.pool.empty((4,), np.float32)
    alone.close()
    alone.close()
    array[:] = 3
    with pytest.raises(RunError):
        world()
    with pytest.raises(RunError):
        alone.pool.allocate(1)
    again = init()
    assert again is not alone
    assert again.pool.empty((4,), np.float32).shape == (4,)
    assert array.sum() == 12
    again.close()


def test_timeouts_come_from_the_caller_or_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COCONET_TIMEOUT", "17")
    first = init()
    assert first.timeout_s == 17
    first.close()
    second = init(timeout_s=3)
    assert second.timeout_s == 3
    second.close()


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan"), 1e9])
def test_a_timeout_is_a_time_to_wait(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        World(Launch(0, 1, "test"), timeout_s=timeout_s, warn_s=1)


def test_a_world_that_is_dropped_stays_until_it_is_closed() -> None:
    # its watch still reads the segment
    made = World(Launch(0, 1, "test"), timeout_s=1, warn_s=1)
    seen = weakref.ref(made)
    del made
    gc.collect()
    left = seen()
    assert left is not None
    left.close()
    del left
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(("rank", "size"), [(1, 1), (-1, 2), (0, 0), (0, 65)])
def test_a_place_outside_the_run_is_refused(rank: int, size: int) -> None:
    with pytest.raises(RendezvousError) as caught:
        World(Launch(rank, size, "x"), timeout_s=1, warn_s=1)
    assert f"rank {rank} of {size}" in str(caught.value.got)


def test_the_segment_is_as_large_as_the_settings_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COCONET_MEMORY", str(8 << 20))
    small = init()
    assert small.pool.reserve == 8 << 20
    small.close()


def test_python_and_c_agree_on_the_contract() -> None:
    assert library().cc_abi() == ABI
    assert library().cc_args_bytes() == ctypes.sizeof(Args)
    assert library().cc_header_bytes() < 16384 + 2 * INBOX_BYTES


def test_many_worlds_leave_no_descriptors(alone: World) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for _ in range(20):
        World(Launch(0, 1, "x"), timeout_s=1, warn_s=1).close()
    assert descriptors() == before


@pytest.mark.multiproc
def test_a_forked_child_is_refused_and_harms_nobody(
    run_all,
) -> None:
    for ended in run_all("fork", size=2):
        assert ended.returncode == 0, ended.stderr
        *errors, total = ended.said
        assert [error["kind"] for error in errors] == ["UsedAfterFork"] * 3
        assert total == [0, 2, 4, 6]

"""The engine `copy`: large enough buffers, and every byte of them is copied."""

from __future__ import annotations

import numpy as np

from coconet.bench.engines.copy import buffer_bytes, copy_step


def test_buffers_exceed_the_caches_where_memory_allows() -> None:
    mib, gib = 1 << 20, 1 << 30
    assert buffer_bytes(cache=0, memory=64 * gib, ranks=2) == 256 * mib
    assert buffer_bytes(cache=48 * mib, memory=64 * gib, ranks=2) == 256 * mib
    assert buffer_bytes(cache=480 * mib, memory=64 * gib, ranks=2) == 1920 * mib
    assert buffer_bytes(cache=480 * mib, memory=8 * gib, ranks=2) == 960 * mib


def test_steps_walk_through_the_buffers_and_start_over() -> None:
    source = np.arange(100, dtype=np.uint8)
    target = np.zeros(100, np.uint8)
    step = copy_step(source, target, 30)
    step()
    assert np.array_equal(target[:30], source[:30])
    assert not target[30:].any()
    for _ in range(3):
        step()
    assert np.array_equal(target, source)
    target[:] = 0
    copy_step(source, target, 250)()
    assert np.array_equal(target, source)

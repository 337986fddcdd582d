"""The allocator of symmetric memory, on a segment of its own."""

import gc
import os
import random
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from coconet.errors import RunError, SharedMemoryFull
from coconet.runtime import symmetric
from coconet.runtime.library import library
from coconet.runtime.symmetric import SymmetricPool


@pytest.fixture
def pool() -> Iterator[SymmetricPool]:
    made = SymmetricPool(reserve=64 << 20, header=library().cc_header_bytes())
    yield made
    made.close()


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 65535, 65536, 100_000])
def test_blocks_start_on_a_line(pool: SymmetricPool, nbytes: int) -> None:
    pool.allocate(1)
    block = pool.allocate(nbytes)
    assert block.address % 64 == 0
    assert block.address == pool.base + block.offset
    assert block.offset >= library().cc_header_bytes()


def test_large_blocks_start_apart_in_their_pages(pool: SymmetricPool) -> None:
    places = [pool.allocate(65536) for _ in range(64)]
    assert len({block.address % 4096 for block in places}) == 64


def test_a_large_block_is_used_again_by_one_of_its_size(pool: SymmetricPool) -> None:
    blocks = [pool.allocate(1 << 20) for _ in range(4)]
    grown = pool.nbytes
    for _ in range(5):
        del blocks[1]
        blocks.insert(1, pool.allocate(1 << 20))
        assert blocks[0].offset < blocks[1].offset < blocks[2].offset
        assert pool.nbytes == grown


def test_freed_memory_is_used_again(pool: SymmetricPool) -> None:
    first = pool.allocate(1000)
    offset = first.offset
    keep = pool.allocate(1000)
    del first
    assert pool.allocate(1000).offset == offset
    assert keep.offset != offset


def test_neighbours_coalesce_in_any_order(pool: SymmetricPool) -> None:
    blocks = {index: pool.allocate(200_000) for index in range(4)}
    start, grown = blocks[0].offset, pool.nbytes
    for index in (2, 0, 3, 1):
        del blocks[index]
        pool.allocate(1)
    assert start <= pool.allocate(800_000).offset < start + 4096
    assert pool.nbytes == grown


def test_it_grows_and_keeps_what_is_there(pool: SymmetricPool) -> None:
    small = pool.empty((1000,), np.int32)
    small[:] = 7
    before = pool.nbytes
    large = pool.empty((5 << 20,), np.uint8)
    large[:] = 9
    assert pool.nbytes > before
    assert (small == 7).all()


def test_views_keep_the_memory(pool: SymmetricPool) -> None:
    array = pool.empty((100, 100), np.float32)
    array[:] = 1
    view = array[3:5, ::2].T
    address = array.ctypes.data
    del array
    gc.collect()
    others = [pool.empty((100, 100), np.float32) for _ in range(5)]
    assert all(other.ctypes.data != address for other in others)
    assert view.sum() == 100


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)])
def test_arrays_have_their_shape(pool: SymmetricPool, shape: tuple[int, ...]) -> None:
    array = pool.empty(shape, "f8")
    array[...] = 2.5
    assert array.shape == shape
    assert array.sum() == 2.5 * array.size


def test_offset_of_knows_what_is_inside(pool: SymmetricPool) -> None:
    array = pool.empty((10,), np.float64)
    at = array.ctypes.data
    assert pool.offset_of(at, 80) == at - pool.base
    assert pool.offset_of(pool.base + pool.nbytes - 8, 8) == pool.nbytes - 8
    assert pool.offset_of(pool.base + pool.nbytes - 8, 9) is None
    assert pool.offset_of(pool.base - 1, 1) is None
    assert pool.offset_of(np.empty(8).ctypes.data, 64) is None


def test_a_full_pool_says_so_and_goes_on(pool: SymmetricPool) -> None:
    with pytest.raises(SharedMemoryFull) as caught:
        pool.allocate(65 << 20)
    assert "bytes more" in str(caught.value.need)
    assert "bytes free" in str(caught.value.got)
    assert caught.value.fix
    held = [pool.allocate(1 << 20) for _ in range(60)]
    with pytest.raises(SharedMemoryFull):
        held.extend(pool.allocate(1 << 20) for _ in range(10))
    held.clear()
    assert pool.allocate(60 << 20).nbytes == 60 << 20


def test_more_than_the_machine_has_is_refused_before_it_is_taken() -> None:
    pool = SymmetricPool(reserve=1 << 44, header=library().cc_header_bytes())
    with pytest.raises(SharedMemoryFull) as caught:
        pool.allocate(1 << 43)
    missing = int(str(caught.value.need).split()[0])
    assert (1 << 43) - pool.nbytes <= missing <= 1 << 43
    assert pool.nbytes < 1 << 21
    pool.close()


def test_a_closed_pool_refuses_and_its_arrays_live(pool: SymmetricPool) -> None:
    array = pool.empty((10,), np.int64)
    pool.close()
    with pytest.raises(RunError):
        pool.allocate(8)
    array[:] = 4
    assert array.sum() == 40


def test_random_blocks_never_overlap(pool: SymmetricPool) -> None:
    rng = random.Random(0)
    live: list[tuple[np.ndarray, int]] = []
    for turn in range(2000):
        if live and rng.random() < 0.5:
            array, mark = live.pop(rng.randrange(len(live)))
            assert (array == mark).all()
            del array
        else:
            numel = rng.choice([0, 1, 10, 100, 5000, 70_000])
            array = pool.empty((numel,), np.int32)
            array[:] = turn
            live.append((array, turn))
    assert all((array == mark).all() for array, mark in live)


def test_threads_may_allocate_at_once(pool: SymmetricPool) -> None:
    broken: list[int] = []

    def work(mark: int) -> None:
        for _ in range(300):
            array = pool.empty((50,), np.int64)
            array[:] = mark
            if not (array == mark).all():
                broken.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken


def test_what_is_free_at_the_end_goes_back_to_the_system(pool: SymmetricPool) -> None:
    first = pool.empty((5000,), np.int8)
    first[:] = 7
    before = pool.nbytes
    gap, large = pool.allocate(9000), pool.allocate(9 << 20)
    last = pool.allocate(2 << 20)
    del large
    pool.trim()
    assert os.fstat(pool.fd).st_size == pool.nbytes > 9 << 20  # `last` is behind it
    del last, gap
    pool.trim()
    assert os.fstat(pool.fd).st_size == pool.nbytes < before
    again = pool.empty((9 << 20,), np.int8)
    assert not again[-(8 << 20) :].any()  # new pages
    assert (first == 7).all()


def test_memory_that_is_kept_is_not_used_again(pool: SymmetricPool) -> None:
    block = pool.allocate(1000)
    offset = block.offset
    pool.keep_all()
    del block
    gc.collect()
    assert all(pool.allocate(1000).offset != offset for _ in range(5))


def test_ctrl_c_while_growing_gives_no_memory_twice(
    pool: SymmetricPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    first = pool.empty((1 << 18,), np.uint8)
    with monkeypatch.context() as patch:
        patch.setattr(symmetric, "_joined", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.allocate(3 << 20)
    arrays = [first, *(pool.empty((1 << 20,), np.uint8) for _ in range(8))]
    for mark, array in enumerate(arrays):
        array[:] = mark
    assert [int(array.max()) for array in arrays] == list(range(9))
    assert [int(array.min()) for array in arrays] == list(range(9))

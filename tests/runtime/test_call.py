"""Calls: data, pointers, disagreement; on one rank and on several."""

import threading
from typing import Any

import numpy as np
import pytest

from coconet.errors import ConcurrentUse, RunError
from coconet.runtime.build import build
from coconet.runtime.executable import Call, Kernel, arrive_bad
from coconet.runtime.library import header_text
from coconet.runtime.world import World

AXPY = """
#include "runtime.h"
int32_t cc_kernel(cc_args *a) {
  int32_t rc = a->world->arrive(a);
  if (rc) return rc;
  const double *x = (const double *)a->pointers[0];
  double *y = (double *)a->pointers[1];
  for (int64_t i = 0; i < a->words[0]; i++)
    y[i] = a->consts[0].f * x[i] + (double)a->consts[1].i + (double)a->scalars[0];
  return a->world->barrier(a, 1);
}
"""


@pytest.fixture
def axpy(alone: World) -> Call:
    sources = {"kernel.c": AXPY, "runtime.h": header_text()}
    return Call(
        alone,
        Kernel(build("axpy", sources)),
        num_buffers=2,
        words=[4],
        num_scalars=1,
        num_consts=2,
        fingerprint=(1, 2, 3, 4),
        text="program axpy",
        waits=["axpy"],
    )


def test_arguments_reach_the_kernel(alone: World, axpy: Call) -> None:
    x, y = np.arange(4.0), alone.pool.empty((4,), np.float64)
    y[:] = -1
    axpy.set_private(0, x.ctypes.data)
    axpy.set_symmetric(1, y.ctypes.data - alone.pool.base)
    axpy.scalars[0] = 100
    axpy.consts[0] = 0.5
    axpy.const_words[1] = 1000
    axpy()
    assert y.tolist() == [1100, 1100.5, 1101, 1101.5]
    axpy.words[0] = 1
    axpy.scalars[0] = 200
    axpy()
    assert y.tolist() == [1200, 1100.5, 1101, 1101.5]


def test_a_second_call_at_once_is_refused(alone: World, axpy: Call) -> None:
    caught: list[RunError] = []

    def use() -> None:
        try:
            axpy()
        except RunError as error:
            caught.append(error)

    with alone.lock:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert [type(error) for error in caught] == [ConcurrentUse]
    with alone.lock, pytest.raises(ConcurrentUse):
        arrive_bad(alone, "x")
    arrive_bad(alone, "of no consequence on one rank")


def test_a_closed_world_runs_nothing(alone: World, axpy: Call) -> None:
    alone.close()
    with pytest.raises(RunError, match="closed"):
        axpy()


def test_scalars_are_bounded(alone: World, axpy: Call) -> None:
    with pytest.raises(ValueError, match="32"):
        Call(
            alone,
            Kernel(build("axpy", {"kernel.c": AXPY, "runtime.h": header_text()})),
            num_buffers=0,
            words=[],
            num_scalars=33,
            num_consts=0,
            fingerprint=(0, 0, 0, 0),
            text="",
            waits=[""],
        )


@pytest.mark.multiproc
@pytest.mark.parametrize("size", [3, 8])  # the next two tests have 2
def test_every_rank_sees_every_number(run_all, size: int) -> None:
    for rank, ended in enumerate(run_all("stress", 2000, size=size)):
        assert ended.returncode == 0, ended.stderr
        assert ended.said == [{"wrong": 0, "rank": rank}]


@pytest.mark.multiproc
def test_counters_may_wrap(run_all) -> None:
    for ended in run_all("stress", 100, 2**32 - 50, size=2):
        assert ended.returncode == 0, ended.stderr
        assert ended.said[0]["wrong"] == 0


@pytest.mark.multiproc
def test_ranks_write_into_each_other(run_all) -> None:
    for ended in run_all("put", size=3):
        assert ended.returncode == 0, ended.stderr
        assert ended.said == [[10.5, 11.5, 12.5]]


DIFFERENCES: dict[str, tuple[str, str, str]] = {
    "fingerprint": ("different kernels", "0000000000000005", "0000000000000004"),
    "text": ("different things", "g i64[9] private", "g i64[8] symmetric"),
    "scalar": ("different scalars", "lr = 0.25", "lr = 0.5"),
}


@pytest.fixture(scope="module")
def differed(run_all) -> dict[str, list[dict[str, Any]]]:
    """What each rank said of each difference; one run goes through all of them."""
    found: dict[str, list[dict[str, Any]]] = {
        what: [] for what in (*DIFFERENCES, "bad")
    }
    for ended in run_all("differ", *found, size=3):
        assert ended.returncode == 0, ended.stderr
        assert [said["what"] for said in ended.said] == list(found)
        for said in ended.said:
            found[said["what"]].append(said)
    return found


@pytest.mark.multiproc
@pytest.mark.parametrize("what", DIFFERENCES)
def test_a_difference_is_named_and_nothing_written(differed, what: str) -> None:
    phrase, theirs, ours = DIFFERENCES[what]
    assert [said["total"] for said in differed[what]] == [[0, 3, 6, 9]] * 3
    errors = [said["error"] for said in differed[what]]
    assert errors[0] == errors[1] == errors[2]
    assert errors[0]["kind"] == "RanksDisagree"
    assert errors[0]["ranks"] == [1]
    assert errors[0]["untouched"]
    assert phrase in errors[0]["what"]
    assert "program test" in errors[0]["what"]
    assert errors[0]["got"].startswith("rank 1: ")
    assert theirs in errors[0]["got"]
    assert ours in errors[0]["need"]


@pytest.mark.multiproc
def test_a_rank_that_refuses_tells_the_others(differed) -> None:
    for rank, said in enumerate(differed["bad"]):
        assert said["total"] == [0, 3, 6, 9]
        assert ("error" in said) == (rank != 1)
        if error := said.get("error"):
            assert (error["kind"], error["ranks"]) == ("RanksDisagree", [1])
            assert error["got"] == "p has dtype f32; and g has f16"
            assert error["untouched"]

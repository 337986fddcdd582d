"""Failures of one rank, threads that collide, tensors that move, odd names."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rank_files import load

import coconet as cc
from coconet.errors import StatePoisoned
from coconet.runtime.testing import run_ranks
from coconet.workloads.optimizers import sgd

pytestmark = pytest.mark.multiproc


@pytest.fixture(scope="module")
def cases() -> ModuleType:
    return load(Path(__file__).with_name("c_misuse.py"))


def test_whatever_one_rank_raises_reaches_all(cases: ModuleType) -> None:
    outcome = run_ranks(2, cases.check_failures_of_one_rank)
    assert outcome.returncodes == (0, 0), outcome.stderr
    for rank, found in enumerate(outcome.results):
        assert cases.wrong_failures(found, rank) == []
        (nans,) = found["NaNs"]
        assert "different scalars" in nans
        assert "lr = nan (0xfff8000000000001)" in nans
        assert "lr = nan (0x7ff8000000000000)" in nans


def test_a_call_during_a_call_is_refused_and_changes_nothing(cases: ModuleType) -> None:
    outcome = run_ranks(2, cases.check_threads)
    assert outcome.returncodes == (0, 0), outcome.stderr
    for found in outcome.results:
        assert found == {name: ["ConcurrentUse", [6.0]] for name in ("bound", "step")}


class SeemsFree:
    """A lock as a thread sees it that looks just before another one takes it."""

    def __init__(self) -> None:
        self.lock, self.waited_for = threading.Lock(), threading.Event()

    def locked(self) -> bool:
        return False

    def __enter__(self) -> None:
        self.waited_for.set()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_of_two_calls_at_one_instant_one_is_refused(cases: ModuleType) -> None:
    x = np.ones(3, np.float32)
    bound = cases.scaled().bind(g=x)
    bound._busy = lock = SeemsFree()
    told: list[str] = []
    with lock.lock:
        thread = threading.Thread(
            target=lambda: told.append(cases.error_of(lambda: bound(2.0)))
        )
        thread.start()
        assert lock.waited_for.wait(10)
        bound._turn += 1  # what a call does that has the lock
    thread.join()
    assert told[0].startswith("ConcurrentUse")
    assert bound(2.0).tolist() == [2.0] * 3


def test_an_interrupt_before_all_is_copied_out_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    g, p = np.ones(3, np.float32), np.ones((3, 2), np.float32)[:, 0]
    bound = cc.compile(cc.library(sgd)["fused"]).bind(g=g, p=p)
    copyto = np.copyto

    def interrupted(to: np.ndarray, source: np.ndarray) -> None:
        if to is p:
            raise KeyboardInterrupt
        copyto(to, source)

    with monkeypatch.context() as patch:
        patch.setattr(np, "copyto", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bound(0.5)
    with pytest.raises(StatePoisoned, match="KeyboardInterrupt"):
        bound(0.5)
    bound.restore()
    bound(0.5)
    assert p.tolist() == [0.5] * 3


def test_a_step_follows_a_tensor_to_other_memory(cases: ModuleType) -> None:
    pytest.importorskip("torch")
    outcome = run_ranks(2, cases.check_tensors_that_move)
    assert outcome.returncodes == (0, 0), outcome.stderr
    assert outcome.results == ([6.5, -0.5, 1997.5],) * 2


def test_a_program_may_have_any_name(cases: ModuleType) -> None:
    outcome = run_ranks(1, cases.check_names)
    assert outcome.returncodes == (0,), outcome.stderr
    assert outcome.results == ([2.0] * 4,)

"""Failures of one rank, threads that collide, tensors that move, odd names."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from rank_files import load

from coconet.runtime.testing import run_ranks

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


def test_a_step_follows_a_tensor_to_other_memory(cases: ModuleType) -> None:
    pytest.importorskip("torch")
    outcome = run_ranks(2, cases.check_tensors_that_move)
    assert outcome.returncodes == (0, 0), outcome.stderr
    assert outcome.results == ([6.5, -0.5, 1997.5],) * 2


def test_a_program_may_have_any_name(cases: ModuleType) -> None:
    outcome = run_ranks(1, cases.check_names)
    assert outcome.returncodes == (0,), outcome.stderr
    assert outcome.results == ([2.0] * 4,)

"""F1, F2, F4 on a compiled program: detected, named, all exit, nothing left behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rank_files import load

from coconet.runtime.testing import Outcome, run_ranks

pytestmark = pytest.mark.multiproc


@pytest.fixture(scope="module")
def victims() -> Any:
    return load(Path(__file__).with_name("victims.py"))


def survivors(outcome: Outcome, victim: int) -> list[str]:
    """Return what the other ranks printed; all ranks have ended, none with success."""
    assert all(code != 0 for code in outcome.returncodes)
    assert outcome.leaks == ()
    return [text for rank, text in enumerate(outcome.stderr) if rank != victim]


@pytest.mark.parametrize(("victim", "threads"), [(0, 1), (1, 1), (2, 1), (1, 3)])
def test_a_killed_rank_is_named_with_operation_and_line(victims, victim, threads):
    outcome = run_ranks(3, victims.step_until, victim, "kill", threads, timeout_s=60)
    for text in survivors(outcome, victim):
        assert "PeerFailed" in text
        assert re.search(rf"rank {victim}\b", text)
        assert re.search(r"adam.*optimizers\.py:\d+", text)
    assert outcome.wall_s < 30


@pytest.mark.parametrize("threads", [1, 2])
def test_a_rank_killed_in_a_round_is_named(victims, threads):
    outcome = run_ranks(3, victims.step_until, 1, "kill later", threads, 4)
    for text in survivors(outcome, 1):
        assert "PeerFailed" in text
        assert re.search(r"rank 1\b", text)
        assert re.search(r"adam.*optimizers\.py:\d+", text)
    assert outcome.wall_s < 30


def test_a_raising_rank_is_quoted(victims):
    outcome = run_ranks(2, victims.step_until, 1, "raise", timeout_s=60)
    (text,) = survivors(outcome, 1)
    assert "PeerFailed" in text
    assert "a bad batch on this rank" in text


@pytest.mark.parametrize("what", ["stop", "sleep"])
def test_a_hung_rank_ends_the_wait_at_the_deadline(victims, what):
    outcome = run_ranks(2, victims.step_until, 1, what, timeout_s=60)
    (text,) = survivors(outcome, 1)
    assert "CollectiveTimeout" in text
    assert "rank 1" in text
    assert ("stopped" if what == "stop" else "sleeping") in text


def test_a_late_rank_touches_only_what_the_call_had(victims):
    seen = []
    for _ in range(3):
        outcome = run_ranks(2, victims.call_again_after_a_fault, timeout_s=60)
        gave_up, late = outcome.results
        assert (gave_up["changed"], late["changed"]) == (0, 0)
        assert gave_up["raised"][0] == late["raised"][0] == "CollectiveTimeout"
        if gave_up["raised"][1] == "StatePoisoned":  # else it was stopped between calls
            assert gave_up["told"] == [True]
            seen.append(gave_up)
    assert seen


def test_ctrl_c_between_short_rounds_ends_the_call(victims):
    outcome = run_ranks(2, victims.interrupted_in_rounds, timeout_s=60)
    mine, peers = outcome.results
    # in the middle of the call: had it gone on to its end, the next one would be run
    assert mine == ["KeyboardInterrupt", "StatePoisoned"]
    assert peers[0] == "PeerFailed"


def test_the_same_world_runs_clean_afterwards(victims):
    for _ in range(2):
        outcome = run_ranks(2, victims.step_until, 0, "kill", timeout_s=60)
        assert outcome.leaks == ()

"""Tuning on real ranks: one winner, kept, computed right, whatever goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rank_files import load

import coconet as cc
from coconet.errors import ScheduleError
from coconet.runtime.testing import Outcome, run_ranks
from coconet.workloads.optimizers import adam, sgd

CASES = Path(__file__).parent / "tune_cases.py"
RANKS = 3  # the optimizers' tests tune on 2


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache", numbered=True)
        folder.chmod(0o700)
        patch.setenv("COCONET_CACHE", str(folder))
        found = run_ranks(RANKS, load(CASES).everything, timeout_s=110)
    assert found.returncodes == (0,) * RANKS, found.stderr
    return found


def each(outcome: Outcome, case: str) -> list[Any]:
    """What a case came to on each rank."""
    return [result[case] for result in outcome.results]


pytestmark = [pytest.mark.multiproc, pytest.mark.slow, pytest.mark.timeout(300)]


def test_divergent_clocks_give_one_winner(outcome):
    first, *others = each(outcome, "divergent_clocks")
    assert all(other == first for other in others)
    for text in first:
        assert json.loads(text)["report"]["rows"][0]["verdict"] == "chosen"


def test_a_decision_is_remembered(outcome):
    assert all(found == {"same": True} for found in each(outcome, "remembered"))


def test_a_corrupt_entry_is_told_once_and_replaced(outcome):
    assert all(found["kept"] for found in each(outcome, "corrupt"))
    told = [text.count("a kept tuning is not used") for text in outcome.stderr]
    assert told == [1, *(0 for _ in told[1:])]


def test_the_step_computes_what_the_program_says(outcome):
    for found in each(outcome, "computes"):
        assert found["equal"] == [True] * 3
        assert found["bound"] == 0
        assert "tuned adam" in found["repr"]


def test_state_is_kept_in_pieces(outcome):
    for layouts in each(outcome, "state_in_pieces"):
        assert layouts == ["Replicated()", "Sliced(FLAT)", "Sliced(FLAT)"]


def test_ranks_that_ask_for_different_things_are_told(outcome):
    for found in each(outcome, "different_requests"):
        assert found["kind"] == "RanksDisagree"
        assert "what to tune" in found["what"]
        assert "time_box_s = 2.0" in found["got"]
        assert found["after"] == "sgd"


def test_a_forced_mismatch_raises_and_never_spins(outcome):
    for found in each(outcome, "forced_mismatch"):
        assert found["kind"] == "RanksDisagree"
        assert "the tuner's decision" in found["what"]
        assert "block_elements" in found["got"]


def test_out_of_time_every_candidate_had_a_turn(outcome):
    for found in each(outcome, "late"):
        assert found["late"]
        assert found["remembered"] == [True, False, True], "a longer box times again"
        assert len(found["turns"]) > 1
        assert set(found["turns"]) == {1}


def test_an_interrupt_on_one_rank_keeps_the_best_on_all(outcome):
    first, *others = each(outcome, "interrupted")
    assert first["interrupted"]
    assert first["few"]
    assert first["restored"]
    assert all(other == first for other in others)


def test_what_fails_on_one_rank_is_skipped_by_all(outcome):
    first, *others = each(outcome, "one_rank_fails")
    assert "no luck today" in first["verdicts"]
    assert all(other == first for other in others)


def test_memory_is_freed(outcome):
    assert all(each(outcome, "freed"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"N": 0}, ValueError),
        ({"N": -5}, ValueError),
        ({"N": True}, TypeError),
        ({"N": "8"}, TypeError),
        ({"N": 8.0}, TypeError),
        ({}, ValueError),
        ({"N": 8, "M": 8}, ValueError),
        ({"N": 8, "time_box_s": 0}, ValueError),
        ({"N": 8, "time_box_s": -1.0}, ValueError),
        ({"N": 8, "time_box_s": float("nan")}, ValueError),
        ({"N": 8, "time_box_s": True}, TypeError),
        ({"N": 8, "time_box_s": "8"}, TypeError),
        ({"N": 8, "limit": 0}, ValueError),
        ({"N": 8, "limit": False}, TypeError),
        ({"N": 8, "limit": "64"}, TypeError),
        ({"N": 8, "slice_state": "m"}, TypeError),
        ({"N": 8, "slice_state": ["m1"]}, ValueError),
        ({"N": 8, "arguments": {"g": 1.0}}, ValueError),
    ],
)
def test_options_that_cannot_be_meant_are_refused_at_once(options, error):
    with pytest.raises(error):
        cc.tune(adam, **options)


def test_only_programs_are_tuned():
    with pytest.raises(TypeError, match="program"):
        cc.tune(adam.schedule(), N=8)


@pytest.fixture
def alone(own_cache, alone):
    return alone


def test_the_public_call_returns_a_step(alone):
    step = sgd.tune(group=alone, sizes={"N": 100}, time_box_s=0.2, strict=False)
    g, p = (cc.zeros((100,), cc.f32, alone) for _ in "gp")
    g[:] = 2.0
    step(g=g, p=p, lr=0.5)
    assert (p == -1.0).all()
    assert step.report.sizes == {"N": 100}
    assert step.schedule.program is sgd


def test_strict_raises_where_there_is_nothing_to_fuse(alone):
    (size,) = cc.dims("N")
    x = cc.tensor("x", cc.f32, (size,), cc.Replicated(), cc.Group("dp"))
    single = cc.program("single", inputs=[x], outputs=[x + 1.0])
    with pytest.raises(ScheduleError, match="nothing is faster"):
        cc.tune(single, group=alone, N=64, time_box_s=0.1, strict=True)
    assert cc.tune(single, group=alone, N=64).report.best.name == "as_written"

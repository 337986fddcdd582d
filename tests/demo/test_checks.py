"""The tolerances: what passes, what fails, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coconet.demo.checks import (
    FIRST,
    checks,
    differences,
    falling,
    first_losses,
    last_losses,
    same_bits,
)

LOSSES = [4.0 - 0.01 * step for step in range(200)]


def off(step: int, by: float) -> list[float]:
    return [x * (1 + by) if n == step else x for n, x in enumerate(LOSSES)]


def test_difference_is_relative_to_the_reference():
    assert differences([1.0, 3.0, 5.0], [2.0, 3.0, 4.0]) == [0.5, 0.0, 0.25]


@pytest.mark.parametrize("step", [0, FIRST - 1])
def test_one_of_the_first_losses_is_enough_to_fail(step):
    assert first_losses(off(step, 0.9e-3), LOSSES).passed
    failed = first_losses(off(step, -1.1e-3), LOSSES)
    assert not failed.passed
    assert "1.1e-03" in failed.got


def test_later_losses_may_part_but_not_their_mean():
    assert first_losses(off(FIRST, 0.5), LOSSES).passed
    drifted = [x * 1.019 for x in LOSSES]
    assert last_losses(drifted, LOSSES).passed
    assert not last_losses([x * 0.979 for x in LOSSES], LOSSES).passed
    assert last_losses(off(149, 1e6), LOSSES).passed
    assert not last_losses(off(150, 2), LOSSES).passed


def test_short_runs_are_checked_as_far_as_they_go():
    check = first_losses(LOSSES[:8], LOSSES[:8])
    assert check.passed
    assert "first 8 steps" in check.what


def test_nan_never_passes():
    broken = off(3, float("nan"))
    assert not first_losses(broken, LOSSES).passed
    assert not last_losses(off(199, float("nan")), LOSSES).passed
    assert not falling(off(199, float("nan"))).passed


def test_two_sides_that_stand_still_fail():
    assert falling(LOSSES).passed
    assert not falling([3.0] * 200).passed


def test_other_bits_on_a_rank_fail():
    assert same_bits("x", ["ab", "ab"]).passed
    assert not same_bits("x", ["ab", "ba"]).passed


def test_a_run_is_checked_for_everything(facts):
    assert [check.passed for check in checks(facts)] == [True] * 4


def test_beside_the_interpreter_every_bit_counts(facts):
    exact = replace(facts, is_exact=True)
    assert [check.passed for check in checks(exact)] == [True] * 5
    other = replace(exact.reference, digests=["ab", "cd"])
    assert [c.passed for c in checks(replace(exact, reference=other))][-1] is False


def test_ranks_that_parted_fail(facts):
    parted = replace(facts, ours=replace(facts.ours, digests=["ab", "cd"]))
    assert [check.passed for check in checks(parted)] == [True, True, True, False]

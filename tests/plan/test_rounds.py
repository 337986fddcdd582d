"""Lock-step rounds: how they divide a tile, what goes in them, what each part does."""

from __future__ import annotations

import pytest
from small_programs import M, N, program, tensor

import coconet as cc
from coconet.errors import InternalError
from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.lower import lower
from coconet.plan import Stage, Tile
from coconet.plan.rounds import ROUND, Rounds
from coconet.plan.verify import verify_plan
from coconet.workloads.optimizers import ADAM_STATE, adam, sgd

SEEDS = 200


def tile(cut, shape=(N,)):
    return Tile("t", shape, cut, ())


def staged(source, ranks=2):
    steps = lower(source, ranks).body
    return [step.staged for step in steps if isinstance(step, Tile) and step.staged]


@pytest.mark.parametrize("cut", [None, cc.FLAT, 0, cc.ROWS(1)])
@pytest.mark.parametrize("length", [1, 7, 64, 1000])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("rows", [0, 1, 3, 40])
def test_chunks_are_each_part_once(cut, length, ranks, rows):
    rounds = Rounds.of(tile(cut), (rows, 5), ranks, length)
    for rank, part in enumerate(rounds.parts):
        chunks = [rounds.chunk(rank, turn) for turn in range(rounds.count)]
        assert [e for chunk in chunks for e in chunk] == list(part)
        for turn, chunk in enumerate(chunks):
            first, end = rounds.span(rank, turn)
            assert (part[first:end], len(chunk) <= length) == (chunk, True)
    if cut is not None:
        assert sorted(e for part in rounds.parts for e in part) == list(range(5 * rows))


@pytest.mark.parametrize("cut", [None, cc.FLAT])
def test_slots_of_two_rounds_lie_apart(cut):
    rounds = Rounds.of(tile(cut), (1000,), 3, 50)
    owners = [0] if cut is None else range(3)
    places = [
        rounds.slot(rank, turn) + i
        for turn in (4, 5)
        for rank in owners
        for i in range(50)
    ]
    assert len(places) == len(set(places)) == rounds.size == max(places) + 1
    assert rounds.slot(1, 4) == rounds.slot(1, 6)


def test_an_owner_copies_what_peers_compute():
    assert Rounds.of(tile(cc.FLAT), (1000,), 3, 50).copied(1) == [0, 2]
    assert Rounds.of(tile(None), (1000,), 3, 50).copied(1) == [1]


def test_what_goes_in_rounds():
    schedules = {n: s.result for n, s in cc.library(adam, state=ADAM_STATE).items()}
    assert staged(schedules["fused_sliced"]) == [("g", "p")]
    assert staged(schedules["fused"]) == [("g", "m", "v", "p")]
    assert staged(schedules["one_shot"]) == [("g",)]
    x = tensor("x", cc.Sliced(0), (M, N))
    gathered = program(cc.all_gather(x), inputs=[x])
    assert staged(gathered) == [(gathered.outputs[0].name,)]


def test_what_does_not():
    g, x = tensor("g", cc.Local()), tensor("x", cc.Sliced(1), (M, N))
    part = cc.reduce_scatter(g, "sum", cc.FLAT)
    apart = program(cc.all_gather(x), inputs=[x])
    twice = program(cc.all_reduce(g), cc.all_reduce(g, "max"), inputs=[g])
    folded = program(cc.sum_(part), inputs=[g]).schedule()
    folded.fuse(*folded.program.values)
    assert not staged(apart), "the rows of a piece lie apart"
    assert all("g" not in names for names in staged(twice)), "two loops need it"
    assert not staged(folded.program), "the loop folds its elements"


CHANGES = {
    "no wait": [s for s in ROUND if s is not Stage.MEET],
    "no fence": [s for s in ROUND if s is not Stage.FENCE],
    "nothing copied in": [s for s in ROUND if s is not Stage.COPY_IN],
    "nothing copied out": [s for s in ROUND if s is not Stage.COPY_OUT],
    "copied in behind the wait": [ROUND[1], ROUND[0], *ROUND[2:]],
    "copied out before the wait": [ROUND[0], ROUND[2], ROUND[1], *ROUND[3:]],
    "computed before the wait": [ROUND[0], ROUND[3], *ROUND[1:3], ROUND[4]],
    "as it is": list(ROUND),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_part_of_a_round_counts(monkeypatch, change):
    monkeypatch.setattr("coconet.plan.verify.proof.ROUND", CHANGES[change])
    monkeypatch.setattr("coconet.interp.plan.ROUND", CHANGES[change])
    check(is_right=change == "as it is")


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_two_slots_are_needed_and_enough(monkeypatch, slots):
    monkeypatch.setattr("coconet.plan.rounds.SLOTS", slots)
    check(is_right=slots > 1)


def check(*, is_right):
    """The proof, and a run of 200, agree on whether rounds are right."""
    result = cc.library(sgd)["fused"].result
    for ranks in (2, 3):
        plan = lower(result, ranks)
        given = random_arguments(sgd, ranks, {"N": 520}, 1)
        need = run_program(sgd, ranks, {"N": 520}, given).effects
        if is_right:
            verify_plan(plan)
        else:
            with pytest.raises(InternalError):
                verify_plan(plan)
        seeds = range(SEEDS if not is_right else 40)
        runs = (run_plan(plan, {"N": 520}, given, seed=seed).effects for seed in seeds)
        assert is_right != any(first_difference(run, need) for run in runs)

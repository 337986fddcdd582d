"""Random chains: reproducible, all of them schedulable like Adam, all of them right."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.workloads.chain import random_chain


@pytest.mark.parametrize("seed", range(40))
def test_every_chain_takes_the_schedules_of_adam(seed):
    program = random_chain(seed=seed)
    schedule = cc.library(program, state=("m", "v"))["fused_sliced"]
    assert len(schedule.result.fusions) == 1
    assert str(random_chain(seed=seed)) == str(program)


def test_chains_keep_their_bits():
    for seed in range(4):
        program = random_chain(seed=seed)
        schedule = cc.library(program, state=("m", "v"))["fused_sliced"]
        report = cc.verify(schedule, ranks=(1, 2, 3), sizes=[{"N": 130}])
        assert not report.mismatches

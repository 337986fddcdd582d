"""Random programs under random schedules keep every bit, simulated and compiled."""

from __future__ import annotations

import pytest

from coconet.runtime.testing import run_ranks


@pytest.mark.parametrize("seed", range(150))
def test_simulated_ranks(seed, cases):
    case = cases.draw(seed)
    assert list(cases.differences(case)) == [], str(case)


@pytest.mark.multiproc
@pytest.mark.parametrize(("ranks", "first"), [(2, 1000), (3, 2000)])
def test_compiled(ranks, first, cases):
    seeds = list(range(first, first + 20))
    outcome = run_ranks(ranks, cases.check_compiled, seeds, timeout_s=100)
    assert outcome.returncodes == (0,) * ranks, outcome.stderr
    assert outcome.results == ([],) * ranks

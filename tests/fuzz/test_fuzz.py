"""Random programs under random schedules keep every bit, simulated and compiled."""

from __future__ import annotations

import pytest

from coconet.runtime.testing import run_ranks


@pytest.mark.parametrize("seed", range(260))
def test_simulated_ranks(seed, cases):
    case = cases.draw(seed)
    assert list(cases.differences(case)) == [], str(case)


@pytest.mark.slow
@pytest.mark.multiproc
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("ranks", "first", "count"), [(1, 1000, 8), (2, 2000, 16), (3, 3000, 16)]
)
def test_compiled(ranks, first, count, cases):
    seeds = list(range(first, first + count))
    outcome = run_ranks(ranks, cases.check_compiled, seeds, timeout_s=280)
    assert outcome.returncodes == (0,) * ranks, outcome.stderr
    assert outcome.results == ([],) * ranks

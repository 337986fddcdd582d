"""Messages between ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_files import load

from coconet.errors import RanksDisagree
from coconet.runtime.exchange import Exchange
from coconet.runtime.testing import run_ranks
from coconet.runtime.world import World
from coconet.settings import Launch

EXCHANGE = Path(__file__).parent / "programs/exchange.py"


@pytest.mark.multiproc
@pytest.mark.parametrize("ranks", [2, 3])
def test_rows_messages_and_agreement(ranks: int) -> None:
    outcome = run_ranks(ranks, load(EXCHANGE).everything)
    assert outcome.returncodes == (0,) * ranks, outcome.stderr
    for found in outcome.results:
        assert found["wrong"] == 0
        agreement, *unlike = found["errors"]
        assert agreement == {
            "what": "rank 1 and rank 0 differ in the plan",
            "got": "three",
            "ranks": [1],
        }
        assert len(unlike) == 2
        for each, got in zip(unlike, ("4 bytes", "a vote"), strict=True):
            assert "an exchange, 3 bytes" in each["what"]
            assert got in each["got"]
            assert each["again"] == "again"


def test_one_rank_hears_itself() -> None:
    alone = World(Launch(0, 1, "test"), timeout_s=5, warn_s=5)
    exchange = Exchange(alone)
    assert exchange.all_gather(b"me") == [b"me"]
    exchange.agree("anything", "at all")
    alone.close()
    with pytest.raises(Exception, match="closed") as caught:
        exchange.rows(b"me")
    assert not isinstance(caught.value, RanksDisagree)

"""Facts of a run that never was, and a run of a few small steps."""

from __future__ import annotations

import pytest

from coconet.demo.facts import Facts, Side, Spread
from coconet.demo.listing import Listing


def side(name: str, losses: list[float], *, rest_ms: float = 2.0) -> Side:
    return Side(
        name=name,
        losses=losses,
        iteration=Spread(40.0 + rest_ms, 39.5, 57.25, 190),
        alone=Spread(40.0, 39.0, 45.0, 64),
        rest=Spread(rest_ms, rest_ms / 2, rest_ms * 2, 64),
        state_bytes=[4 << 20, (4 << 20) - 256],
        digests=["ab", "ab"],
    )


@pytest.fixture
def facts() -> Facts:
    losses = [4.0 - 0.01 * step for step in range(200)]
    return Facts(
        task="A model reads <text> & learns",
        is_exact=False,
        ranks=2,
        ours=side("coconet <ours>", losses),
        reference=side("DDP", [x * (1 + 1e-5) for x in losses], rest_ms=8.0),
        listing=Listing("split(avg)", "avg = g", "fused", "plan", "if (a < b) c();"),
        notes=["Measured in turns."],
        machine={"cpu": "A CPU", "cache_bytes": {"L3": 48 << 20}, "memory_bytes": 8},
        versions={"python": "3.11", "torch": "2.13"},
        wall_s=61.5,
    )

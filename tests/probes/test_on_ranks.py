"""Small inputs that broke other systems, on real ranks; cases.py tells how."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from probes import ranks

from coconet.runtime.testing import run_ranks

WORLDS = (2, 3)


@pytest.fixture(scope="module")
def said() -> Callable[[int], tuple[dict[str, str], ...]]:
    """What the ranks of a world of this size said; each world runs once."""
    worlds: dict[int, tuple[dict[str, str], ...]] = {}

    def of(size: int) -> tuple[dict[str, str], ...]:
        if size not in worlds:
            outcome = run_ranks(size, ranks.run, timeout_s=240)
            assert outcome.returncodes == (0,) * size, outcome.stderr
            worlds[size] = outcome.results
        return worlds[size]

    return of


@pytest.mark.multiproc
@pytest.mark.timeout(250)
@pytest.mark.parametrize(
    ("name", "size"),
    [
        (name, size)
        for module in ranks.MODULES
        for size in WORLDS
        for name, sizes in module.CASES.worlds.items()
        if size in sizes
    ],
)
def test_on_ranks(said, name: str, size: int) -> None:
    for rank, results in enumerate(said(size)):
        assert results.get(name) == "ok", f"rank {rank}: {results.get(name)}"

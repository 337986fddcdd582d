"""The optimizers on 1, 2 and 3 ranks, against torch.optim on the mean gradient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rank_files import load

from coconet.runtime.launch import spawn

pytest.importorskip("torch")

WORLDS = (2, 1, 3)


CASES = load(Path(__file__).with_name("optim_cases.py"))


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> Callable[[int], list[Any]]:
    """What the ranks of a world of this size said; each world runs once."""
    worlds: dict[int, list[Any]] = {}
    folder = str(tmp_path_factory.mktemp("worlds"))

    def of(ranks: int) -> list[Any]:
        if ranks != 2:
            of(2)  # leaves a checkpoint in the folder
        if ranks not in worlds:
            worlds[ranks] = spawn(CASES.run_cases, ranks, folder, timeout_s=110)
        return worlds[ranks]

    return of


@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        (name, ranks)
        for ranks in WORLDS
        for name, (_, of) in CASES.CASES.items()
        if ranks in of
    ],
)
def test_on_ranks(said, name: str, ranks: int) -> None:
    for rank, results in enumerate(said(ranks)):
        assert results.get(name) == "ok", f"rank {rank}: {results.get(name)}"

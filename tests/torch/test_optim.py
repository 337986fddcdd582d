"""The optimizers on 1, 2 and 3 ranks, against torch.optim on the mean gradient.

A process that imports torch and makes an optimizer takes seconds before its first case,
so each world runs the cases of all files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rank_files import load

from coconet.runtime.launch import spawn

pytest.importorskip("torch")

WORLDS = (2, 1, 3)
ALL = load(Path(__file__).with_name("all_cases.py"))


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> Callable[[int], list[Any]]:
    """What the ranks of a world of this size said; each world runs once."""
    worlds: dict[int, list[Any]] = {}
    folder = str(tmp_path_factory.mktemp("worlds"))

    def of(ranks: int) -> list[Any]:
        if ranks != 2:
            of(2)  # leaves checkpoints in the folder
        if ranks not in worlds:
            worlds[ranks] = spawn(ALL.run, ranks, folder, timeout_s=240)
        return worlds[ranks]

    return of


@pytest.mark.multiproc
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("file", "name", "ranks"),
    [
        (file, name, ranks)
        for ranks in WORLDS
        for file, module in ALL.FILES.items()
        for name, of in module.CASES.worlds.items()
        if ranks in of
    ],
)
def test_on_ranks(said, file: str, name: str, ranks: int) -> None:
    for rank, results in enumerate(said(ranks)):
        found = results.get(file, {}).get(name)
        assert found == "ok", f"rank {rank}: {found}"

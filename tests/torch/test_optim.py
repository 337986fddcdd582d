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
FILES = {
    name: load(Path(__file__).with_name(f"{name}.py"))
    for name in ("optim_cases", "mixed_cases", "choose_cases")
}


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> Callable[[str, int], list[Any]]:
    """What the ranks of a world of this size said; each world runs once."""
    worlds: dict[tuple[str, int], list[Any]] = {}
    folder = str(tmp_path_factory.mktemp("worlds"))

    def of(file: str, ranks: int) -> list[Any]:
        if ranks != 2:
            of(file, 2)  # leaves a checkpoint in the folder
        if (file, ranks) not in worlds:
            run = FILES[file].run_cases
            worlds[file, ranks] = spawn(run, ranks, folder, timeout_s=110)
        return worlds[file, ranks]

    return of


@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("file", "name", "ranks"),
    [
        (file, name, ranks)
        for file, module in FILES.items()
        for ranks in WORLDS
        for name, of in module.CASES.worlds.items()
        if ranks in of
    ],
)
def test_on_ranks(said, file: str, name: str, ranks: int) -> None:
    for rank, results in enumerate(said(file, ranks)):
        assert results.get(name) == "ok", f"rank {rank}: {results.get(name)}"

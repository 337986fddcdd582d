"""The optimizers on 1, 2 and 3 ranks, against torch.optim on the mean gradient."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coconet.runtime.launch import spawn

pytest.importorskip("torch")

HERE = Path(__file__).parent
WORLDS = (2, 1, 3)


def load(name: str) -> Any:
    """Import a file beside this one, as the ranks will: by its path."""
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES = load("optim_cases")


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

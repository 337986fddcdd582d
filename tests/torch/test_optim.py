"""The optimizers on 1, 2 and 3 ranks, against torch.optim on the mean gradient."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coconet.runtime.launch import spawn

pytest.importorskip("torch")

HERE = Path(__file__).parent
WORLDS = (1, 2, 3)


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

    def of(ranks: int) -> list[Any]:
        if ranks not in worlds:
            folder = str(tmp_path_factory.mktemp("world"))
            worlds[ranks] = spawn(CASES.run_cases, ranks, folder, timeout_s=110)
        return worlds[ranks]

    return of


@pytest.mark.multiproc
@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("name", CASES.CASES)
def test_on_ranks(said, ranks: int, name: str) -> None:
    for rank, results in enumerate(said(ranks)):
        assert results.get(name) == "ok", f"rank {rank}: {results.get(name)}"


@pytest.mark.multiproc
def test_a_checkpoint_of_2_ranks_goes_on_at_1_and_3(tmp_path) -> None:
    path = str(tmp_path / "checkpoint.pt")
    need = spawn(CASES.continued, 2, path, 0, 20, timeout_s=60)
    assert Path(path).exists()
    for ranks in (1, 3):
        for got in spawn(CASES.continued, ranks, path, 10, 20, timeout_s=60):
            for ours, theirs in zip(got, need[0], strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6)
    for ours, theirs in zip(*need, strict=True):
        assert ours.tobytes() == theirs.tobytes()

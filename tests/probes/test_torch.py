"""Small inputs that broke other systems, as torch tensors on two ranks."""

from __future__ import annotations

import pytest

from coconet.runtime.testing import run_ranks

pytest.importorskip("torch")

from probes import torch_cases


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> tuple[dict[str, str], ...]:
    """What the ranks said; the world runs once."""
    folder = str(tmp_path_factory.mktemp("world"))
    outcome = run_ranks(2, torch_cases.run, folder, timeout_s=240)
    assert outcome.returncodes == (0, 0), outcome.stderr
    return outcome.results


@pytest.mark.multiproc
@pytest.mark.timeout(250)
@pytest.mark.parametrize("name", torch_cases.CASES.worlds)
def test_on_ranks(said, name: str) -> None:
    for rank, results in enumerate(said):
        assert results.get(name) == "ok", f"rank {rank}: {results.get(name)}"

"""torchrun starts our ranks too, and torch's processor modes stay outside kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "programs" / "torchrun_sgd.py"
RANKS = 2


@pytest.mark.multiproc
def test_a_script_under_torchrun() -> None:
    pytest.importorskip("torch", reason="torchrun comes with torch")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(RANKS), str(SCRIPT)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    for rank in range(RANKS):
        assert f"rank {rank} of {RANKS} is right" in done.stdout

"""torchrun starts our ranks too, and torch's processor modes stay outside kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "programs" / "torchrun_sgd.py"


@pytest.mark.multiproc
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_script_under_torchrun(ranks: int) -> None:
    pytest.importorskip("torch", reason="torchrun comes with torch")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(ranks), str(SCRIPT)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    for rank in range(ranks):
        assert f"rank {rank} of {ranks} is right" in done.stdout

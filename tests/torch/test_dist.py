"""From torch's process groups to worlds, on two ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rank_files import load

from coconet.runtime.launch import spawn

pytest.importorskip("torch")


@pytest.mark.multiproc
def test_groups_of_torch(tmp_path) -> None:
    cases = load(Path(__file__).with_name("dist_cases.py"))
    first, second = spawn(cases.run_groups, 2, str(tmp_path), timeout_s=60)
    assert first == second
    assert all(run.startswith("torch-") for run in first)
    assert len(set(first)) == 2


def test_import_coconet_does_not_import_torch() -> None:
    import subprocess

    code = "import sys, coconet; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

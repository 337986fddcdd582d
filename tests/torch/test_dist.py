"""From torch's process groups to worlds, on two ranks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from coconet.runtime.launch import spawn

pytest.importorskip("torch")


@pytest.mark.multiproc
def test_groups_of_torch(tmp_path) -> None:
    path = Path(__file__).with_name("dist_cases.py")
    spec = importlib.util.spec_from_file_location("dist_cases", path)
    assert spec is not None
    assert spec.loader is not None
    cases = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = cases
    spec.loader.exec_module(cases)
    first, second = spawn(cases.run_groups, 2, str(tmp_path), timeout_s=60)
    assert first == second
    assert all(run.startswith("torch-") for run in first)
    assert len(set(first)) == 2


def test_import_coconet_does_not_import_torch() -> None:
    import subprocess

    code = "import sys, coconet; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

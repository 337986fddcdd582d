"""The bridge to torch's process groups; dist_cases.py has what needs ranks."""

from __future__ import annotations

import subprocess
import sys


def test_import_coconet_does_not_import_torch() -> None:
    code = "import sys, coconet; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

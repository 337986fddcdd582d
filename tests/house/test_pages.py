"""The pages of docs/: their Python runs, and the generated one is up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in PYTHON.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), namespace)


def test_links_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#:]+)\)")
    for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in link.findall(page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_schedules_page_is_what_the_docstrings_say() -> None:
    script = ROOT / "scripts" / "docs_from_docstrings.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, f"run {script.name}"

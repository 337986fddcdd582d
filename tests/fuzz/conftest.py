"""The module of random cases, importable by path in other processes too."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_files import load


@pytest.fixture(scope="session")
def cases():
    """Return the module `cases.py` that lies beside this file."""
    return load(Path(__file__).with_name("cases.py"))

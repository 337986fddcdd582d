"""The module of random cases, importable by path in other processes too."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cases():
    """Return the module `cases.py` that lies beside this file."""
    spec = importlib.util.spec_from_file_location(
        "fuzz_cases", Path(__file__).with_name("cases.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

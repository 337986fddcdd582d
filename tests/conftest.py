"""What tests of the core share: golden texts, and comparisons bit by bit."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.ir import Sliced
from coconet.lower import lower
from coconet.ops import take_piece

GOLDEN = Path(__file__).parent / "golden"


# A shell starts what it puts in the background with Ctrl-C ignored, and so would be all
# that the tests start; with a handler of our own they begin as from a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/*.txt"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with tests/golden/NAME.txt, or rewrite that file."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text + "\n")
        assert text + "\n" == path.read_text(), "run pytest --update-golden, and look"

    return check


@pytest.fixture(scope="session")
def plan_difference():
    """Return the first difference between a program's plan and the program, or None."""

    def compare(program, ranks, sizes, *, seed=0, plan=None):
        given = random_arguments(program, ranks, sizes, seed)
        need = run_program(program, ranks, sizes, given)
        got = run_plan(plan or lower(program, ranks), sizes, given, seed=seed)
        assert got.outputs.keys() == need.outputs.keys()
        assert got.effects.keys() == need.effects.keys()
        return first_difference(got.outputs | got.effects, need.outputs | need.effects)

    return compare


@pytest.fixture(scope="session")
def schedule_difference():
    """Return the first difference between a scheduled program and the original."""

    def compare(original, scheduled, ranks, sizes, *, seed=0):
        need = run_program(
            original, ranks, sizes, random_arguments(original, ranks, sizes, seed)
        )
        got = run_program(
            scheduled, ranks, sizes, random_arguments(scheduled, ranks, sizes, seed)
        )
        effects = {
            name: _as_held(original[name].type, scheduled[name].type, arrays)
            for name, arrays in need.effects.items()
        }
        assert list(got.outputs) == list(need.outputs)
        assert got.effects.keys() == effects.keys()
        return first_difference(got.outputs | got.effects, need.outputs | effects)

    return compare


def _as_held(before, after, arrays):
    """Return an input's arrays as a rank holds them: pieces, if a step sliced it."""
    if before.layout == after.layout:
        return arrays
    assert isinstance(after.layout, Sliced)
    ranks = len(arrays)
    return tuple(
        np.ascontiguousarray(take_piece(array, after.layout.cut, rank, ranks))
        for rank, array in enumerate(arrays)
    )


@pytest.fixture
def alone():
    """A world of one process."""
    from coconet.runtime.world import World
    from coconet.settings import Launch

    made = World(Launch(0, 1, "test"), timeout_s=5, warn_s=5)
    yield made
    made.close()


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache of kernels and decisions."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("COCONET_CACHE", str(tmp_path))
    return tmp_path

"""The eager backend on gloo groups of 1, 2 and 3 ranks, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rank_files import load

import coconet as cc
from coconet.backends.eager import EagerStep
from coconet.backends.eager.pointwise import POINTWISE
from coconet.backends.eager.table import CALLS
from coconet.backends.table import BACKENDS, load_backend
from coconet.errors import (
    DtypeError,
    GroupError,
    ProgramError,
    ShapeError,
    UnsupportedError,
)
from coconet.ops import ELEMENTWISE, OPS, Input, Literal, Slice
from coconet.runtime.launch import spawn
from coconet.workloads.optimizers import sgd

WORLDS = (1, 2, 3)
DP = cc.Group("dp")


CASES = load(Path(__file__).with_name("eager_cases.py"))


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> Callable[[int], list[Any]]:
    """What the ranks of a world of this size said; each world runs once."""
    worlds: dict[int, list[Any]] = {}

    def of(ranks: int) -> list[Any]:
        if ranks not in worlds:
            folder = str(tmp_path_factory.mktemp("world"))
            worlds[ranks] = spawn(CASES.run_cases, ranks, folder, timeout_s=100)
        return worlds[ranks]

    return of


@pytest.mark.multiproc
@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("case", CASES.CASES)
def test_a_world_agrees_with_the_interpreter(said, ranks, case):
    wrong = [
        (rank, words[case]) for rank, words in enumerate(said(ranks)) if case in words
    ]
    assert not wrong, "\n".join(f"rank {rank}: {text}" for rank, text in wrong)


def test_every_op_has_a_call():
    assert CALLS.keys() == set(OPS) - {Input, Literal}
    assert POINTWISE.keys() == ELEMENTWISE.keys()


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_loads(name):
    assert callable(load_backend(name))


def one_rank_step() -> EagerStep:
    g = cc.tensor("g", cc.f32, (4,), cc.Local(), DP)
    p = cc.tensor("p", cc.f32, (4,), cc.Replicated(), DP)
    lr = cc.scalar("lr")
    out = cc.update(p, p - lr * cc.all_reduce(g))
    return EagerStep(cc.program("one", inputs=[g, p, lr], outputs=[out]))


def test_one_rank_needs_no_process_group():
    p = np.ones(4, np.float32)
    assert one_rank_step()(np.ones(4, np.float32), p, 0.25) is None
    assert p.tolist() == [0.75] * 4


def test_several_ranks_need_a_process_group(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(GroupError) as error:
        one_rank_step()
    assert "init_process_group" in error.value.fix


def test_scheduling_keeps_the_interface():
    step = sgd.schedule().compile(backend="eager")
    assert isinstance(step, EagerStep)
    with pytest.raises(ValueError, match="c, eager, interpreter"):
        sgd.schedule().compile(backend="lazy")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"g": np.ones(5, np.float32)}, ShapeError),
        ({"g": np.ones(4, np.float64)}, DtypeError),
        ({"g": np.ones(4, ">f4")}, DtypeError),
        ({"g": [1.0] * 4}, TypeError),
        ({"g": None}, TypeError),
        ({"g": torch.ones(4, device="meta")}, TypeError),
        ({"x": np.ones(4, np.float32)}, TypeError),
        ({"lr": None}, TypeError),
        ({"lr": True}, TypeError),
        ({"lr": "0.5"}, TypeError),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(change, error):
    given: dict[str, Any] = {"g": np.ones(4, np.float32), "lr": 0.5}
    given |= {"p": torch.ones(4)} | change
    with pytest.raises(error):
        one_rank_step()(**given)
    assert given["p"].tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "form", [torch.from_numpy, lambda array: array], ids=["torch", "numpy"]
)
def test_an_updated_argument_shares_memory_with_no_other(form):
    both = form(np.zeros(6, np.float32))
    with pytest.raises(ProgramError, match="shares memory") as error:
        one_rank_step()(both[:4], both[2:], 0.5)
    assert error.value.fix == "pass a copy as 'g'"
    one_rank_step()(both[:2].repeat(2), both[2:], 0.5)


def test_only_an_updated_argument_must_be_writable():
    fixed = np.ones(4, np.float32)
    fixed.flags.writeable = False
    p = fixed.copy()
    one_rank_step()(fixed, p, 1.0)
    assert p.tolist() == [0.0] * 4
    with pytest.raises(ProgramError, match="is updated"):
        one_rank_step()(p, fixed, 1.0)


def test_an_op_without_a_call_is_refused_and_a_backend_named():
    class Odd(Slice):
        __slots__ = ()

    x = cc.tensor("x", cc.f32, (4,), cc.Replicated(), DP)
    program = cc.program("odd", inputs=[x], outputs=[x.emit(Odd(0))])
    with pytest.raises(UnsupportedError, match="no Odd") as error:
        EagerStep(program)
    assert 'backend="c"' in error.value.fix
    assert "test_eager.py" in error.value.at


def test_a_program_for_other_ranks_is_refused():
    x = cc.tensor("x", cc.f32, (4,), cc.Local(), cc.Group("dp", 3))
    program = cc.program("three", inputs=[x], outputs=[cc.all_reduce(x)])
    with pytest.raises(GroupError) as error:
        EagerStep(program)
    assert (error.value.got, error.value.need) == ("1 ranks", "Group('dp', 3)")

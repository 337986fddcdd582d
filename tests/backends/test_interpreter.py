"""The backend that needs no compiler: the bits and the manners of the C backend."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import coconet as cc
from coconet.backends.interpreter import InterpretedStep, step
from coconet.errors import GroupError, NoCompiler, ProgramError, ShapeError
from coconet.interp import random_arguments
from coconet.runtime import build
from coconet.workloads.optimizers import adam, sgd

DP = cc.Group("dp")


def total(dtype: cc.DType = cc.f32, group: cc.Group = DP) -> cc.Program:
    x = cc.tensor("x", dtype, (4,), cc.Local(), group)
    summed = cc.all_reduce(x)
    return cc.program("total", inputs=[x], outputs=[summed, summed * 2])


@pytest.mark.parametrize("size", [0, 1, 65, 1000])
def test_the_same_bits_as_the_c_backend(size: int) -> None:
    schedule = cc.library(adam)["fused"]
    given = random_arguments(adam, 1, {"N": size}, 3)
    scalars = {v.name: given[v.name] for v in adam.scalars}
    bits: list[list[bytes]] = []
    for backend in ("c", "interpreter"):
        tensors = {v.name: given[v.name][0].copy() for v in adam.tensors}
        cc.compile(schedule, backend=backend)(**tensors, **scalars)
        bits.append([tensor.tobytes() for tensor in tensors.values()])
    assert bits[0] == bits[1]


def test_results_are_new_or_where_the_caller_says() -> None:
    x = np.arange(4, dtype=np.float32)
    call = cc.compile(total(), backend="interpreter")
    first, double = call(x)
    assert first is not x
    assert first.tolist() == [0, 1, 2, 3]
    assert double.tolist() == [0, 2, 4, 6]
    out = (np.zeros(4, np.float32), np.zeros(8, np.float32)[::2])
    for returned in (call(x, out=out), call.bind(x=x, out=list(out))()):
        assert returned[0] is out[0]
        assert returned[1] is out[1]
        assert out[1].tolist() == [0, 2, 4, 6]
    with pytest.raises(ShapeError):
        call(x, out=(x[:3].copy(), x.copy()))
    with pytest.raises(ProgramError, match="shares memory"):
        call(x, out=(x, x.copy()))


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_tensors_give_tensors(name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = {"float32": cc.f32, "bfloat16": cc.bf16}[name]
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=getattr(torch, name))
    _, double = cc.compile(total(dtype), backend="interpreter")(x)
    assert torch.equal(double, x * 2)


def test_it_is_one_rank() -> None:
    with pytest.raises(GroupError, match="another number"):
        cc.compile(total(group=cc.Group("tp", 2)), backend="interpreter")


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without a C compiler, where nothing was compiled yet."""

    def init(*_: Any) -> None:
        build.find_compiler()

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("coconet.runtime.world.init", init)
    step._say.cache_clear()
    return monkeypatch


def test_without_a_compiler_one_loud_line(
    no_compiler: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    g, p = np.ones(10, np.float32), np.ones(10, np.float32)
    for _ in range(2):
        made = cc.compile(cc.library(sgd)["fused"])
        assert isinstance(made, InterpretedStep)
        made(g, p, lr=0.25)
    assert p.tolist() == [0.5] * 10
    (line,) = capfd.readouterr().err.splitlines()
    assert re.match("coconet: no C compiler .* interpreter.* ziglang", line)


def test_without_a_compiler_several_ranks_hear_of_both_ways_out(
    no_compiler: pytest.MonkeyPatch,
) -> None:
    for name, value in {"RANK": "0", "SIZE": "2", "RUN": "x"}.items():
        no_compiler.setenv(f"COCONET_{name}", value)
    with pytest.raises(NoCompiler, match=r"ziglang.*eager"):
        cc.compile(sgd)


def test_a_compiler_that_was_asked_for_is_not_done_without(
    no_compiler: pytest.MonkeyPatch,
) -> None:
    no_compiler.setenv("CC", "/nowhere/cc")
    with pytest.raises(NoCompiler, match="CC names"):
        cc.compile(sgd)

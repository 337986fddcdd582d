"""Torch tensors in a world of one: in place, out of place, and without gradients."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.workloads.optimizers import sgd

torch = pytest.importorskip("torch")
DP = cc.Group("dp")


def doubled(dtype: cc.DType) -> cc.Program:
    x = cc.tensor("x", dtype, (4,), cc.Local(), DP)
    return cc.program("doubled", inputs=[x], outputs=[cc.all_reduce(x) * 2])


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16"])
def test_results_are_tensors_of_the_same_dtype(name):
    short = {"float32": cc.f32, "float64": cc.f64, "bfloat16": cc.bf16}
    given = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=getattr(torch, name))
    result = cc.compile(doubled(short.get(name, cc.f16)))(given)
    assert result.dtype == given.dtype
    assert torch.equal(result, given * 2)


def test_a_lost_gradient_is_said_aloud():
    given = torch.ones(4, requires_grad=True)
    step = cc.compile(doubled(cc.f32))
    with pytest.warns(UserWarning, match="carry no gradient"):
        step(given)
    with torch.no_grad():
        assert not step(given).requires_grad


def test_updates_are_in_place_through_strides():
    wide = torch.ones(10, 2)
    cc.compile(cc.library(sgd)["fused"])(torch.ones(10), wide[:, 0], lr=0.5)
    assert torch.equal(wide[:, 0], torch.full((10,), 0.5))
    assert torch.equal(wide[:, 1], torch.ones(10))

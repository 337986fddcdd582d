"""softmax, layer_norm and rms_norm against their formulas, and bf16 rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import coconet as cc
from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.lower import lower

A, B, C = cc.dims("A B C")
DP = cc.Group("dp")
LAYOUTS = (
    cc.Replicated(),
    cc.Sliced(0),
    cc.Sliced(cc.ROWS(1)),
    cc.Sliced(cc.ROWS(2)),
)
SIZES = {"A": 3, "B": 5, "C": 67}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b


def rms_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def composite(name: str, layout: object, dtype: cc.DType) -> cc.Program:
    x = cc.tensor("x", dtype, (A, B, C), layout, DP)
    w = cc.tensor("w", cc.f32, (C,), cc.Replicated(), DP)
    b = cc.tensor("b", dtype, (C,), cc.Replicated(), DP)
    out, inputs = {
        "softmax": lambda: (cc.softmax(x), [x]),
        "layer_norm": lambda: (cc.layer_norm(x, w, b), [x, w, b]),
        "rms_norm": lambda: (cc.rms_norm(x, w), [x, w]),
    }[name]()
    assert out.type == x.type
    return cc.program(name, inputs=inputs, outputs=[out])


@pytest.mark.parametrize("dtype", [cc.f32, cc.bf16, cc.f64], ids=str)
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
def test_composites_are_their_formulas(name: str, dtype: cc.DType) -> None:
    formula = {"softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm}[name]
    program = composite(name, cc.Replicated(), dtype)
    arguments = random_arguments(program, 1, SIZES, 3)
    given = [array[0].astype(np.float64) for array in arguments.values()]
    need = formula(*given)
    (got,) = run_program(program, 1, SIZES, arguments).outputs.values()
    eps = float(ml_dtypes.finfo(dtype.numpy).eps)
    # bf16 is rounded once, by half an ulp; near 0 f32 sums cancel
    error = np.abs(got[0].astype(np.float64) - need)
    least = 1e-14 if dtype is cc.f64 else 2e-6
    half, few = 0.51 * eps, 8.0 * eps
    bound = (half if dtype is cc.bf16 else few) * np.abs(need) + least
    assert (error <= bound).all()


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_pieces_have_the_bits_of_the_whole(ranks: int) -> None:
    for name in ("softmax", "layer_norm", "rms_norm"):
        whole = composite(name, cc.Replicated(), cc.bf16)
        given = random_arguments(whole, 1, SIZES, 5)
        (need,) = run_program(whole, 1, SIZES, given).outputs.values()
        for layout in LAYOUTS:
            program = composite(name, layout, cc.bf16)
            arguments = random_arguments(program, ranks, SIZES, 5)
            results = run_program(program, ranks, SIZES, arguments)
            got = run_plan(lower(program, ranks), SIZES, arguments, seed=1)
            assert first_difference(got.outputs, results.outputs) is None
            (pieces,) = results.outputs.values()
            if layout != cc.Replicated():
                pieces = [np.concatenate([p.reshape(-1) for p in pieces])]
            for piece in pieces:
                assert np.array_equal(piece.reshape(-1), need[0].reshape(-1))


def test_what_they_need() -> None:
    with pytest.raises(TypeError, match="a tensor of a program"):
        cc.softmax(1.0)
    x = cc.tensor("x", cc.f32, (A, B), cc.Sliced(cc.FLAT), DP)
    with pytest.raises(cc.CoconetError, match="cut by ROWS"):
        cc.softmax(x)

"""Collectives and pieces, as program and as plan, against explicit numpy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import coconet as cc
from coconet.interp import first_difference, run_plan, run_program
from coconet.interp.inputs import random_whole
from coconet.ir import DTYPES
from coconet.lower import lower
from coconet.ops import join_pieces, take_piece

DP = cc.Group("dp")
RANKS = (1, 2, 3, 4, 8)
FEW = (1, 2, 3)  # what is said of ranks does not look at the dtype
OPS = ("sum", "mean", "max", "min", "prod")
SHAPES = [(), (0,), (1,), (65,), (200,), (5, 3), (3, 0, 2), (4, 2, 3)]
CASES = [
    (dtype, op)
    for dtype in DTYPES.values()
    for op in OPS
    if dtype is not cc.bool_ and (op != "mean" or dtype.is_float)
]
SAMPLE = ((cc.f32, "sum"), (cc.bf16, "mean"), (cc.i8, "prod"))
ON_RANKS = [
    (*case, ranks) for case in CASES for ranks in (RANKS if case in SAMPLE else FEW)
]


def cuts_of(shape):
    return cc.FLAT, *range(len(shape)), *(cc.ROWS(k + 1) for k in range(len(shape)))


def piece_by_hand(array, cut, rank, ranks):
    """The definition, written again: the rows, columns or elements lo to hi."""
    match cut:
        case int():
            step = -(-array.shape[cut] // ranks)
            where = [slice(None)] * array.ndim
            where[cut] = slice(rank * step, (rank + 1) * step)
            return array[tuple(where)]
        case cc.ROWS(k):
            split = array.ndim - k
            rows = array.reshape(prod(array.shape[:split]), *array.shape[split:])
            return piece_by_hand(rows, 0, rank, ranks)
        case _:
            flat = array.reshape(-1)
            step = -(-flat.size // ranks)
            step = -(-step // 64) * 64
            return flat[rank * step : (rank + 1) * step]


def fold_by_hand(op, arrays):
    """In rank order from rank 0, 16-bit floats in f32, one rounding at the end."""
    dtype = arrays[0].dtype
    is_half = dtype.name in ("float16", "bfloat16")
    wide = np.dtype(np.float32) if is_half else dtype
    with np.errstate(all="ignore"):
        total = np.array(arrays[0].astype(wide))
        for array in arrays[1:]:
            other = array.astype(wide)
            match op:
                case "sum" | "mean":
                    total = total + other
                case "prod":
                    total = total * other
                case "max":
                    total = np.where(other > total, other, total)
                case "min":
                    total = np.where(other < total, other, total)
        if op == "mean":
            total = total / wide.type(len(arrays))
        return np.asarray(total).astype(dtype)


def check(program, given, ranks, need):
    """Compare the program's and the plan's only output with arrays per rank."""
    for run in (
        run_program(program, ranks, {}, given),
        run_plan(lower(program, ranks), {}, given),
    ):
        difference = first_difference(run.outputs, {"y": need})
        assert difference is None, str(difference)


def local(dtype, shape, ranks):
    x = cc.tensor("x", dtype, shape, cc.Local(), DP)
    arrays = [random_whole(x.type, shape, [7, rank]) for rank in range(ranks)]
    return x, arrays


def named(y, x):
    return cc.program("k", inputs=[x], outputs=[y])


@pytest.mark.parametrize(("dtype", "op", "ranks"), ON_RANKS, ids=str)
def test_all_reduce(dtype, op, ranks):
    for shape in SHAPES:
        x, arrays = local(dtype, shape, ranks)
        y = cc.all_reduce(x, op)
        need = [fold_by_hand(op, arrays)] * ranks
        check(named(y, x), {"x": arrays}, ranks, need)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reduce_scatter_by_every_cut(shape, ranks):
    for dtype, op in SAMPLE:
        x, arrays = local(dtype, shape, ranks)
        whole = fold_by_hand(op, arrays)
        for cut in cuts_of(shape):
            y = cc.reduce_scatter(x, op, cut)
            need = [piece_by_hand(whole, cut, rank, ranks) for rank in range(ranks)]
            check(named(y, x), {"x": arrays}, ranks, need)


@pytest.mark.parametrize(("dtype", "op", "ranks"), ON_RANKS, ids=str)
def test_reduce_scatter_of_every_dtype(dtype, op, ranks):
    x, arrays = local(dtype, (130,), ranks)
    y = cc.reduce_scatter(x, op)
    whole = fold_by_hand(op, arrays)
    need = [piece_by_hand(whole, cc.FLAT, rank, ranks) for rank in range(ranks)]
    check(named(y, x), {"x": arrays}, ranks, need)


@pytest.mark.parametrize(
    ("dtype", "ranks"),
    [(d, r) for d in DTYPES.values() for r in (RANKS if d is cc.f32 else FEW)],
    ids=str,
)
def test_slices_and_gathers_are_inverse(dtype, ranks):
    for shape in SHAPES:
        for cut in cuts_of(shape):
            x = cc.tensor("x", dtype, shape, cc.Replicated(), DP)
            whole = random_whole(x.type, shape, [3])
            y = cc.slice_(x, cut)
            pieces = [piece_by_hand(whole, cut, rank, ranks) for rank in range(ranks)]
            check(named(y, x), {"x": [whole] * ranks}, ranks, pieces)
            x = cc.tensor("x", dtype, shape, cc.Sliced(cut), DP)
            y = cc.all_gather(x)
            check(named(y, x), {"x": pieces}, ranks, [whole] * ranks)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_take_and_join(shape, ranks):
    whole = np.arange(prod(shape)).reshape(shape)
    for cut in cuts_of(shape):
        pieces = [take_piece(whole, cut, rank, ranks) for rank in range(ranks)]
        for rank, piece in enumerate(pieces):
            hand = piece_by_hand(whole, cut, rank, ranks)
            assert piece.shape == hand.shape
            assert (piece == hand).all()
        assert (join_pieces(pieces, shape, cut) == whole).all()
        assert join_pieces(pieces, shape, cut).shape == shape


def reduced(dtype, op, *numbers):
    """Combine one element per rank, as program and plan; return rank 0's bits."""
    ranks = len(numbers)
    x = cc.tensor("x", dtype, (1,), cc.Local(), DP)
    y = cc.all_reduce(x, op)
    given = {"x": [np.array([number]).astype(dtype.numpy) for number in numbers]}
    program = named(y, x)
    ran = run_program(program, ranks, {}, given).outputs["y"]
    planned = run_plan(lower(program, ranks), {}, given).outputs["y"]
    assert first_difference({"y": planned}, {"y": ran}) is None
    return ran[0][0]


def test_sums_go_in_rank_order():
    big = 2.0**24
    assert reduced(cc.f32, "sum", big, 1.0, 1.0, -big) == 0.0
    assert reduced(cc.f32, "sum", 1.0, 1.0, big, -big) == 2.0
    assert reduced(cc.f32, "sum", big, -big, 1.0, 1.0) == 2.0


def test_16_bit_sums_are_in_f32_and_rounded_once():
    # in f16 each 2048 + 1 would be 2048 again
    assert reduced(cc.f16, "sum", 2048.0, 1.0, 1.0) == 2050.0
    assert reduced(cc.bf16, "sum", 256.0, 1.0, 1.0) == 258.0
    # beyond the range of f16 on the way, inside at the end
    assert reduced(cc.f16, "sum", 60000.0, 60000.0, -60000.0) == 60000.0
    assert reduced(cc.f16, "mean", 60000.0, 60000.0) == 60000.0


def test_mean_divides_once_at_the_end():
    third = reduced(cc.f32, "mean", 1.0, 0.0, 0.0)
    assert third == np.float32(1) / np.float32(3)
    assert reduced(cc.f32, "mean", 3e38, 3e38) == np.inf


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", [cc.f16, cc.bf16, cc.f32, cc.f64], ids=str)
def test_nan_wins_and_minus_zero_is_smaller(op, dtype):
    for numbers in ((np.nan, 1.0, 2.0), (1.0, np.nan, 2.0), (1.0, 2.0, np.nan)):
        assert np.isnan(float(reduced(dtype, op, *numbers)))
    for numbers in ((0.0, -0.0), (-0.0, 0.0)):
        assert np.signbit(float(reduced(dtype, op, *numbers))) == (op == "min")


@pytest.mark.parametrize(
    ("dtype", "op", "numbers", "need"),
    [
        (cc.i8, "sum", (100, 100), -56),
        (cc.u8, "sum", (200, 100), 44),
        (cc.i8, "prod", (100, 2), -56),
        (cc.u32, "sum", (2**31, 2**31), 0),
        (cc.i32, "max", (-5, -7), -5),
        (cc.u64, "min", (2**63, 3), 3),
    ],
    ids=str,
)
def test_integers_wrap(dtype, op, numbers, need):
    assert reduced(dtype, op, *np.array(numbers, dtype.numpy)) == need


def test_a_sum_of_one_rank_keeps_minus_zero():
    assert np.signbit(reduced(cc.f32, "sum", -0.0))
    assert not np.signbit(reduced(cc.f32, "sum", -0.0, 0.0))
    assert np.signbit(reduced(cc.f32, "sum", -0.0, -0.0))

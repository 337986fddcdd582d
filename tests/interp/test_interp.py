"""Comparison by bits, random arguments, and what the interpreter refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coconet as cc
from coconet.errors import InternalError, ShapeError
from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.ir import DTYPES
from coconet.lower import lower
from coconet.ops import take_piece
from coconet.plan import Arrive
from coconet.workloads.optimizers import adam

DP = cc.Group("dp")
(N,) = cc.dims("N")


def difference(a, b):
    return first_difference({"x": [np.asarray(a)]}, {"x": [np.asarray(b)]})


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_equal_bits_are_equal(dtype):
    array = np.ones((2, 3), dtype.numpy)
    assert difference(array, array.copy()) is None
    other = array.copy()
    other[1, 2] = 0
    found = difference(other, array)
    assert (found.name, found.rank, found.index, found.count) == ("x", 0, 5, 1)
    assert "element 5" in str(found)


@pytest.mark.parametrize("dtype", [cc.f16, cc.bf16, cc.f32, cc.f64], ids=str)
def test_nan_is_nan_and_zeros_have_signs(dtype):
    one, zero = np.ones(1, dtype.numpy), np.zeros(1, dtype.numpy)
    nan = one * dtype.numpy.type(float("nan"))
    other = np.copysign(nan.astype(np.float64), -1.0).astype(dtype.numpy)
    assert difference(nan, nan) is None
    assert difference(nan, other) is None
    assert difference(nan, one) is not None
    assert difference(one, nan) is not None
    assert difference(zero, -zero) is not None
    assert difference(-zero, -zero) is None


def test_shapes_and_dtypes_must_agree():
    a = np.ones((2, 3), np.float32)
    assert "(3, 2)" in str(difference(a.T, a))
    assert "float64" in str(difference(a.astype(np.float64), a))
    assert difference(np.zeros(0), np.zeros(0)) is None
    assert difference(np.zeros((0, 2)), np.zeros((2, 0))) is not None
    assert difference(a.T, a.T.copy()) is None
    assert difference(a[:, ::2], a[:, ::2].copy()) is None


def test_the_first_difference_names_the_rank():
    same = np.zeros(4, np.float32)
    changed = same.copy()
    changed[[1, 3]] = 1
    found = first_difference({"y": [same, changed]}, {"y": [same, same]})
    assert (found.rank, found.index, found.count) == (1, 1, 2)
    with pytest.raises(ValueError, match="zip"):
        first_difference({"y": [same]}, {"y": [same, same]})
    with pytest.raises(KeyError):
        first_difference({}, {"y": [same]})


def arguments(layout, ranks=3, seed=0, dtype=cc.f32, shape=(N,), name="x"):
    x = cc.tensor(name, dtype, shape, layout, DP)
    out = cc.logical_not(x) if dtype is cc.bool_ else x + 1
    program = cc.program("k", inputs=[x], outputs=[cc.update(x, out)])
    return random_arguments(program, ranks, {"N": 130}, seed)[name]


@pytest.mark.parametrize("cut", [cc.FLAT, 0, cc.ROWS(1)], ids=repr)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_arguments_do_not_depend_on_the_layout(cut, dtype):
    whole, *others = arguments(cc.Replicated(), dtype=dtype)
    assert all((whole == other).all() for other in others)
    pieces = arguments(cc.Sliced(cut), dtype=dtype)
    for rank, piece in enumerate(pieces):
        assert difference(piece, take_piece(whole, cut, rank, 3)) is None


def test_arguments_depend_on_rank_name_and_seed():
    one, two, _ = arguments(cc.Local())
    assert (one != two).any()
    assert (arguments(cc.Local(), seed=1)[0] != one).any()
    assert (arguments(cc.Local(), name="y")[0] != one).any()
    assert (arguments(cc.Local())[0] == one).all()
    assert (one < 0).any()
    assert (one > 0).any()


def test_scalars_are_numbers():
    given = random_arguments(adam, 2, {"N": 3}, 0)
    assert all(0 < given[name] < 1 for name in ("lr", "beta1", "beta2", "eps"))
    assert isinstance(given["t"], int)
    assert 1 <= given["t"] <= 9


def given_for_adam(**changed):
    return random_arguments(adam, 2, {"N": 5}, 0) | changed


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ([np.zeros(5, np.float32)], "per rank"),
        ([np.zeros(5, np.float32)] * 3, "per rank"),
        ([np.zeros(5, np.float32), np.zeros(4, np.float32)], "rank 1"),
        ([np.zeros(5)] * 2, "rank 0"),
        ([np.zeros((5, 1), np.float32)] * 2, "rank 0"),
    ],
    ids=["too few", "too many", "short", "dtype", "dims"],
)
def test_wrong_arguments_are_refused(arrays, said):
    with pytest.raises(ShapeError) as caught:
        run_program(adam, 2, {"N": 5}, given_for_adam(g=arrays))
    assert said in caught.value.what
    assert str(caught.value.got)
    assert str(caught.value.need)


def test_pieces_have_the_shape_of_their_rank():
    x = cc.tensor("x", cc.f32, (N,), cc.Sliced(0), DP)
    program = cc.program("k", inputs=[x], outputs=[cc.all_gather(x)])
    good = [np.ones(2, np.float32), np.zeros(1, np.float32)]
    (out, _) = run_program(program, 2, {"N": 3}, {"x": good}).outputs["_1"]
    assert out.tolist() == [1, 1, 0]
    with pytest.raises(ShapeError, match="rank 0"):
        run_program(program, 2, {"N": 3}, {"x": good[::-1]})


def test_ranks_that_block_each_other_are_reported():
    plan = lower(adam, 2)
    machine_waits = replace(plan, body=(*plan.body, Arrive()))
    given = given_for_adam()
    assert run_plan(machine_waits, {"N": 5}, given).effects.keys() == {"p", "m", "v"}
    with pytest.raises(InternalError, match="block each other"):
        _run_with_a_rank_missing(plan, given)


def _run_with_a_rank_missing(plan, given):
    from coconet.interp.plan import _Machine

    machine = _Machine(plan, {"N": 5}, given, np.random.default_rng(0))
    machine.ranks[1].reached = -1  # it will be one arrival behind for ever
    machine.run()


def test_runs_depend_on_the_seed_in_order_only():
    given = given_for_adam()
    plan = lower(adam, 2)
    first = run_plan(plan, {"N": 5}, given, seed=0)
    for seed in range(1, 10):
        again = run_plan(plan, {"N": 5}, given, seed=seed)
        assert first_difference(again.effects, first.effects) is None


def test_arguments_of_a_plan_are_not_changed():
    given = given_for_adam()
    before = [array.copy() for array in given["p"]]
    run_plan(lower(adam, 2), {"N": 5}, given)
    assert first_difference({"p": given["p"]}, {"p": before}) is None

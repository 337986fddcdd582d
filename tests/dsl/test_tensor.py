"""Tensors as the user holds them: operators, names, lines, misuse."""

from __future__ import annotations

import inspect
import operator

import numpy as np
import pytest

import coconet as cc
from coconet.errors import DtypeError, LayoutError, ProgramError, ShapeError
from coconet.ops import Elementwise, Literal

DP = cc.Group("dp")
(N,) = cc.dims("N")


def tensor(name="x", layout=None, dtype=cc.f32, shape=(N,)):
    return cc.tensor(name, dtype, shape, layout or cc.Replicated(), DP)


def line():
    """This file and the caller's line, as errors name them."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"test_tensor.py:{frame.f_back.f_lineno}"


OPERATORS = [
    (operator.add, "add"),
    (operator.sub, "sub"),
    (operator.mul, "mul"),
    (operator.truediv, "div"),
    (operator.lt, "less"),
    (operator.le, "less_equal"),
    (operator.gt, "greater"),
    (operator.ge, "greater_equal"),
]


@pytest.mark.parametrize(("function", "name"), OPERATORS)
def test_binary_operators(function, name):
    x, y = tensor("x"), tensor("y")
    out = function(x, y)
    assert out.value.op == Elementwise(name)
    assert out.value.inputs == (x.value, y.value)
    right = function(x, 2.0).value
    assert right.op == Elementwise(name)
    assert right.inputs[1].op == Literal(2.0)


@pytest.mark.parametrize(("function", "name"), OPERATORS[:4])
def test_reflected_operators_keep_the_order(function, name):
    x = tensor()
    out = function(2, x).value
    assert out.op == Elementwise(name)
    assert out.inputs[0].op == Literal(2)
    assert out.inputs[1] is x.value


def test_reflected_comparisons_turn_around():
    out = operator.lt(2.0, tensor()).value
    assert out.op == Elementwise("greater")
    assert out.inputs[1].op == Literal(2.0)


def test_unary_operators():
    x = tensor()
    assert (-x).value.op == Elementwise("neg")
    assert abs(x).value.op == Elementwise("abs")
    assert cc.abs_(x).value.op == Elementwise("abs")


def test_powers_of_scalars():
    s, k = cc.scalar("s"), cc.scalar("k", cc.i64)
    for out in (s**2, 2**s, s**k, k**2):
        assert out.value.op == Elementwise("pow")
        assert out.type.dtype is cc.f64
    assert (2**s).value.inputs[0].op == Literal(2)


@pytest.mark.parametrize("function", [cc.maximum, cc.minimum, cc.equal, cc.not_equal])
def test_functions_take_a_number_on_either_side(function):
    x = tensor()
    assert function(0.0, x).value.inputs[1] is x.value
    assert function(x, 0.0).value.inputs[0] is x.value
    assert function(0.0, x).value.inputs[0].op == Literal(0.0)


def test_scalar_expressions_stay_scalars():
    s, k = cc.scalar("s"), cc.scalar("k", cc.i64)
    assert (k + 1).type == cc.scalar("l", cc.i64).type
    assert (k + 1.0).type == s.type
    assert (1 - s).type.is_scalar
    assert not (s * tensor()).type.is_scalar


def test_names_come_from_assignments():
    x = tensor()
    plain = x + 1.0
    annotated: cc.Tensor = x + 1.0
    one = two = x + 1.0
    pair, other = x + 1.0, x * 2.0
    called = cc.relu(x)
    nested = cc.relu(x * 2.0)
    chained = x * 2.0 + 1.0
    assert plain.name == "plain"
    assert called.name == "called"
    assert nested.name == "nested"
    assert chained.name == "chained"
    assert nested.value.inputs[0].name == ""
    assert chained.value.inputs[0].name == ""
    unnamed = (annotated, one, two, pair, other, [x + 1.0][0])
    assert [value.name for value in unnamed] == [""] * 6


def test_values_know_their_line():
    x = tensor()
    z, here = x * 2.0, line()
    assert z.value.at == here
    assert z.value.loc.file == __file__


def test_a_declaration_knows_its_line():
    x, here = tensor(), line()
    assert x.value.at != here  # the helper's line declares it
    y, here = cc.scalar("y"), line()
    assert y.value.at == here


@pytest.mark.parametrize(
    "wrong",
    [np.ones(3, np.float32), "2", None, [1.0], True, 1j, np.float32(2)],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("function", [operator.add, operator.mul, operator.lt])
def test_operands_are_tensors_or_numbers(function, wrong):
    x = tensor()
    for act in (lambda: function(x, wrong), lambda: function(wrong, x)):
        with pytest.raises(ProgramError) as caught:
            act()
        problem = caught.value
        assert problem.got == type(wrong).__name__
        assert "cc.tensor" in problem.fix
        assert problem.at.startswith("test_tensor.py:")


def test_numpy_leaves_the_operator_to_us():
    x = tensor()
    out = np.float64(0.5) * x
    assert isinstance(out, cc.Tensor)
    assert out.value.inputs[0].op == Literal(0.5)
    with pytest.raises(ProgramError):
        np.ones(2) + x


def test_functions_of_no_tensor():
    for act in (
        lambda: cc.sqrt(2.0),
        lambda: cc.all_reduce(np.ones(3)),
        lambda: cc.maximum(1.0, 2.0),
        lambda: cc.slice_(None),
    ):
        with pytest.raises(TypeError, match="applies to tensors"):
            act()


def test_equality_is_identity_and_where_says_what_to_write():
    x, y = tensor("x"), tensor("y")
    assert x != y
    assert x == x
    with pytest.raises(ProgramError) as caught:
        cc.where(x == y, x, y)
    assert "equal(a, b)" in caught.value.fix


def test_a_tensor_has_no_truth_value():
    x = tensor()
    acts = (
        lambda: bool(x),
        lambda: not x,
        lambda: 1 if x < 2.0 else 0,
        lambda: x and x,
        lambda: 0.0 < x < 1.0,
    )
    for act in acts:
        with pytest.raises(ProgramError) as caught:
            act()
        assert "where" in caught.value.need
        assert caught.value.at.startswith("test_tensor.py:")


def test_errors_name_the_users_line():
    x, y = tensor("x", cc.Local()), tensor("y", cc.Sliced(0))
    here = line()
    with pytest.raises(LayoutError) as caught:
        x + y
    number = int(here.split(":")[1]) + 2
    assert caught.value.at == f"test_tensor.py:{number}"
    assert f"test_tensor.py:{number}" in str(caught.value)


@pytest.mark.parametrize("name", ["", "1x", "a b", "_x", "x-y"])
def test_names_are_identifiers(name):
    with pytest.raises(ValueError, match="identifier"):
        tensor(name)
    with pytest.raises(ValueError, match="identifier"):
        cc.scalar(name)


@pytest.mark.parametrize("extent", [-1, 1.5, True, "N", None, np.int64(3)], ids=str)
def test_extents_are_counts_or_dims(extent):
    with pytest.raises(ValueError, match="an extent"):
        tensor(shape=(extent,))


@pytest.mark.parametrize(
    ("dtype", "layout", "group"),
    [
        ("f32", cc.Local(), DP),
        (np.float32, cc.Local(), DP),
        (cc.f32, cc.Local, DP),
        (cc.f32, "Local", DP),
        (cc.f32, cc.Local(), "dp"),
        (cc.f32, cc.Local(), None),
    ],
    ids=str,
)
def test_declarations_take_dtypes_layouts_and_groups(dtype, layout, group):
    with pytest.raises(TypeError, match="x: "):
        cc.tensor("x", dtype, (N,), layout, group)


@pytest.mark.parametrize(
    ("shape", "cut"),
    [((), 0), ((N,), 1), ((N,), 3), ((N,), cc.ROWS(2)), ((), cc.ROWS(1))],
    ids=str,
)
def test_a_declared_cut_is_there(shape, cut):
    with pytest.raises(ShapeError) as caught:
        tensor(layout=cc.Sliced(cut), shape=shape)
    assert caught.value.at.startswith("test_tensor.py:")


def test_scalars_are_f64_or_i64():
    with pytest.raises(ValueError, match="f64 or i64"):
        cc.scalar("s", cc.f32)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_integer_literals_have_64_bits(number):
    with pytest.raises(DtypeError) as caught:
        cc.scalar("s") * number
    assert caught.value.at.startswith("test_tensor.py:")


def test_repr_says_name_and_type():
    assert repr(tensor()) == "Tensor(x: f32[N] Replicated)"
    assert repr(tensor() + 1.0) == "Tensor(x + 1.0: f32[N] Replicated)"

"""Scalar expressions: the two evaluators agree, bit by bit."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from coconet.plan import PRIMITIVES, ScalarExpr, evaluate_scalars
from coconet.plan.evaluate import ScalarEvaluator
from coconet.plan.scalar import NUMBERS

REALS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    1e308,
    -1e308,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
]
INTEGERS = [0, 1, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63)]
BINARY = ["add", "sub", "mul", "div", "pow", "min", "max"]
UNARY = ["neg", "abs", "sqrt"]


def bits(number):
    """What distinguishes two results; every NaN is one."""
    if isinstance(number, float):
        return "nan" if math.isnan(number) else struct.pack("<d", number)
    return number


def random_exprs(rng):
    """Arguments, literals, and thirty primitives of earlier expressions."""
    exprs, arguments = [], []
    for position in range(6):
        is_int = bool(rng.integers(2))
        pool = INTEGERS if is_int else REALS
        arguments.append(pool[rng.integers(len(pool))])
        exprs.append(ScalarExpr("argument", position, (), is_int))
        literal = pool[rng.integers(len(pool))]
        exprs.append(ScalarExpr("literal", literal, (), is_int))
    for _ in range(30):
        kind = [*BINARY, *UNARY][rng.integers(10)]
        count = 2 if kind in BINARY else 1
        args = tuple(int(n) for n in rng.integers(len(exprs), size=count))
        is_int = all(exprs[n].is_int for n in args)
        is_real = kind in ("div", "pow", "sqrt")
        exprs.append(ScalarExpr(kind, 0, args, is_int and not is_real))
    return exprs, arguments


@pytest.mark.parametrize("seed", range(200))
def test_evaluators_agree(seed):
    rng = np.random.default_rng(seed)
    exprs, arguments = random_exprs(rng)
    reals = [expr for expr in exprs if not expr.is_int or expr.kind == "argument"]
    plain = _only(exprs, reals)
    for chosen in (exprs, plain):
        need = [bits(number) for number in evaluate_scalars(chosen, arguments, {})]
        evaluator = ScalarEvaluator(chosen, {})
        assert [bits(number) for number in evaluator(arguments)] == need
        # the list is reused: what an earlier call left must not matter
        evaluator([type(number)(1) for number in arguments])
        assert [bits(number) for number in evaluator(arguments)] == need


def _only(exprs, kept):
    """Literals in place of every expression that is not kept: the fast path."""
    return [
        expr if expr in kept else ScalarExpr("literal", 3, (), True) for expr in exprs
    ]


def test_kinds_of_the_results():
    exprs = [
        ScalarExpr("argument", 0, (), True),
        ScalarExpr("literal", 2.0, (), False),
        ScalarExpr("max", 0, (0, 1), False),
        ScalarExpr("mul", 0, (0, 0), True),
    ]
    for evaluate in (
        lambda a: evaluate_scalars(exprs, a, {}),
        ScalarEvaluator(exprs, {}),
    ):
        values = evaluate([2**62])
        assert [type(value) for value in values] == [int, float, float, int]
        assert values[3] == 0


def test_a_maximum_of_integer_and_real_is_real_at_once():
    exprs = [
        ScalarExpr("argument", 0, (), True),
        ScalarExpr("literal", 0.0, (), False),
        ScalarExpr("max", 0, (0, 1), False),
        ScalarExpr("mul", 0, (2, 2), False),
    ]
    big = 2**53 + 1
    need = float(big) * float(big)
    assert evaluate_scalars(exprs, [big], {})[3] == need
    assert ScalarEvaluator(exprs, {})([big])[3] == need


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_says_what_it_is(name):
    primitive = PRIMITIVES[name]
    assert primitive.name == name
    assert primitive.arity in (1, 2, 3)
    assert primitive.result in ("same", "bool", "cast")
    assert (name in NUMBERS) == (name in {*BINARY, *UNARY})


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
@pytest.mark.parametrize("a", REALS)
def test_numbers_and_arrays_mean_the_same(name, a):
    primitive = PRIMITIVES[name]
    for b in REALS if primitive.arity == 2 else [0.0]:
        args = (a, b)[: primitive.arity]
        with np.errstate(all="ignore"):
            array = primitive.array(*(np.array([x]) for x in args))
        assert bits(float(array[0])) == bits(float(primitive.number(*args)))

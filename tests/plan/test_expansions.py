"""Every function against exact arithmetic, at its stated error; every special case."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from exact_functions import PI, exactly

import coconet as cc
from coconet.ops.elementwise import apply_arrays
from coconet.plan.expansions import EXPANSIONS, expand
from coconet.plan.expansions.term import Term
from coconet.plan.scalar import NUMBERS, ArrayEmitter, on_numbers

ULPS = {
    "cos": (0.51, 1.0),
    "erf": (0.53, 1.5),
    "exp": (0.8, 0.8),
    "gelu": (0.53, 7.0),
    "gelu_tanh": (0.51, 2.5),
    "log": (0.9, 0.9),
    "pow": (0.53, 0.7),
    "sigmoid": (2.5, 2.5),
    "silu": (2.8, 2.7),
    "sin": (0.51, 1.0),
    "tanh": (2.0, 2.0),
}
"""The errors stated in docs/language.md, of f32 and of f64."""

UNARY = sorted(EXPANSIONS.keys() - {"pow"})
NAN, INF = math.nan, math.inf


def applied(name, *arrays):
    dtype = cc.f32 if arrays[0].dtype == np.float32 else cc.f64
    with np.errstate(all="ignore"):
        return expand(name, ArrayEmitter(), dtype, *arrays)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


REFERENCES = {
    "cos": np.cos,
    "erf": np.vectorize(math.erf, [float]),
    "exp": np.exp,
    "gelu": lambda x: x * np.vectorize(math.erfc, [float])(-x * math.sqrt(0.5)) / 2,
    "gelu_tanh": lambda x: x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
    "log": np.log,
    "pow": np.power,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "sin": np.sin,
    "tanh": np.tanh,
}
"""In f64, right to many more digits than f32 has."""


def ulps(got, need, significand, least_exponent):
    """Errors in units of the last place, as if the greatest number had a successor."""
    top = 2.0 ** (2 - least_exponent)
    a, b = np.clip(got.astype(np.float64), -top, top), np.clip(need, -top, top)
    exponent = np.maximum(
        np.frexp(b)[1] - significand, least_exponent - significand + 1
    )
    return np.abs(a - b) / np.ldexp(1.0, exponent)


def f32_sample(seed):
    """Bits drawn at random, numbers of usual size, and those about every border."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, 20_000, np.uint64).astype(np.uint32)
    drawn = [rng.normal(0, 1, 20_000), rng.uniform(-110, 110, 20_000)]
    borders = np.array([0.35, 0.5, 0.6931, 1, 1.4142, 9, 14.5, 88.7, 103.97, 1.57079])
    near = borders[:, None] * (1 + np.arange(-20, 20) * 2.0**-23)
    values = [*drawn, near.reshape(-1), -near.reshape(-1)]
    return np.concatenate(
        [bits.view(np.float32), *(v.astype(np.float32) for v in values)]
    )


@pytest.mark.parametrize("name", UNARY)
def test_f32_is_as_near_as_stated(name):
    x = f32_sample(1)
    x = x[np.isfinite(x)]
    got = applied(name, x)
    with np.errstate(all="ignore"):
        need = REFERENCES[name](x.astype(np.float64))
    assert got.dtype == np.float32
    assert (np.isnan(got) == np.isnan(need)).all()
    known = ~np.isnan(need)
    errors = ulps(got[known], need[known], 24, -126)
    assert errors.max() <= ULPS[name][0], x[known][errors.argmax()]
    assert errors.max() > 0.4


def power_sample(dtype, count):
    """Bases of every size, and exponents for which results are of every size."""
    rng = np.random.default_rng(2)
    reach = 126 if dtype == np.float32 else 1020
    base = np.exp2(rng.uniform(-reach, reach, count)).astype(dtype)
    base[::3] = rng.uniform(0.5, 2, base[::3].size)
    logarithm = np.log2(base.astype(np.float64))
    exponent = rng.uniform(-reach, reach, count) / logarithm
    return base, exponent.astype(dtype)


def test_f32_powers_are_as_near_as_stated():
    x, y = power_sample(np.float32, 50_000)
    need = np.power(x.astype(np.float64), y.astype(np.float64))
    errors = ulps(applied("pow", x, y), need, 24, -126)
    assert errors.max() <= ULPS["pow"][0]


@pytest.mark.parametrize("dtype", [cc.f16, cc.bf16], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_every_16_bit_number_is_rounded_once(name, dtype):
    x = np.arange(1 << 16).astype(np.uint16).view(dtype.numpy)
    x = x[np.isfinite(x.astype(np.float32))]
    with np.errstate(all="ignore"):
        got = apply_arrays(name, [x], dtype).astype(np.float64)
        need = REFERENCES[name](x.astype(np.float64))
    significand, least = (11, -14) if dtype is cc.f16 else (8, -126)
    assert (np.isnan(got) == np.isnan(need)).all()
    known = ~np.isnan(need)
    # half a unit, and what f32 was off by
    assert ulps(got[known], need[known], significand, least).max() <= 0.501


def f64_sample(name):
    rng = np.random.default_rng(3)
    if name in ("sin", "cos"):
        turns = np.concatenate([np.arange(1, 20), rng.integers(1, 1 << 29, 40)])
        large = rng.uniform(0, 2.0**30, 40)
        return np.concatenate([rng.normal(0, 3, 60), turns * (math.pi / 2), large])
    if name == "log":
        return np.concatenate(
            [
                np.exp(rng.uniform(-745, 709, 60)),
                rng.uniform(0.5, 2, 60),
                1 + 1e-9 * rng.random(9),
            ]
        )
    tiny = 10.0 ** rng.uniform(-320, -3, 20)
    if name in ("erf", "gelu"):
        return np.concatenate([rng.normal(0, 1, 60), rng.uniform(-27, 27, 60), tiny])
    return np.concatenate(
        [
            rng.normal(0, 1, 60),
            rng.uniform(-38, 38, 60),
            rng.uniform(-750, 710, 40),
            tiny,
        ]
    )


@pytest.mark.parametrize("name", sorted(EXPANSIONS))
def test_f64_is_as_near_as_stated(name):
    x = power_sample(np.float64, 120) if name == "pow" else (f64_sample(name),)
    for *operands, got in zip(*x, applied(name, *x), strict=True):
        need = exactly(name, *map(float, operands))
        if abs(need) >= Decimal(2) ** 1024:
            assert got == math.copysign(INF, need)
            continue
        unit = Decimal(math.ulp(float(need)))
        assert abs(Decimal(float(got)) - need) <= Decimal(ULPS[name][1]) * unit, (
            operands
        )


def test_angles_of_every_size_are_reduced_exactly():
    rng = np.random.default_rng(4)
    x = np.exp2(rng.uniform(0, 127.99, 300)).astype(np.float32)
    # the f32 that comes nearest to a multiple of pi / 2
    x[0] = np.float32(16367173.0 * 2.0**72)
    for name in ("sin", "cos"):
        need = np.array([float(exactly(name, float(a))) for a in x])
        assert ulps(applied(name, x), need, 24, -126).max() <= ULPS[name][0]


def test_f64_angles_beyond_2_to_the_30_are_off_by_less_than_their_spacing():
    rng = np.random.default_rng(5)
    x = np.exp2(rng.uniform(30, 45, 100))
    for name in ("sin", "cos"):
        need = np.array([float(exactly(name, float(a))) for a in x])
        assert (np.abs(applied(name, x) - need) <= np.spacing(x)).all()
        assert np.isnan(applied(name, np.array([2.0**51, 1e300, INF]))).all()


SPECIAL = {
    "cos": ((0.0, 1), (INF, NAN)),
    "erf": ((0.0, 0.0), (INF, 1), (9.0, 1)),
    "exp": ((0.0, 1), (INF, INF), (-INF, 0.0), (1e30, INF), (-1e30, 0.0)),
    "gelu": ((0.0, 0.0), (INF, INF), (-INF, -0.0), (1e30, 1e30), (-1e30, -0.0)),
    "gelu_tanh": ((0.0, 0.0), (INF, INF), (-INF, -0.0), (1e30, 1e30), (-50.0, -0.0)),
    "log": ((0.0, -INF), (INF, INF), (-INF, NAN), (1.0, 0.0), (-1.0, NAN)),
    "sigmoid": ((0.0, 0.5), (INF, 1), (-INF, 0.0), (1e30, 1), (-1e30, 0.0)),
    "silu": ((0.0, 0.0), (INF, INF), (-INF, -0.0), (1e30, 1e30), (-1e30, -0.0)),
    "sin": ((0.0, 0.0), (INF, NAN)),
    "tanh": ((0.0, 0.0), (INF, 1), (1e30, 1)),
}
EVEN, ODD = {"cos"}, {"erf", "sin", "tanh"}
ODD_AT_ZERO = ODD | {"gelu", "gelu_tanh", "silu"}


def special_cases(name):
    yield from SPECIAL[name]
    yield from ((NAN, NAN), (-NAN, NAN))
    if name in ODD | EVEN:
        sign = -1 if name in ODD else 1
        yield from ((-x, sign * need) for x, need in SPECIAL[name])
    _, at_zero = SPECIAL[name][0]
    yield -0.0, -at_zero if name in ODD_AT_ZERO else at_zero


def same(got, need):
    if math.isnan(need):
        return math.isnan(got)
    return got == need and math.copysign(1, got) == math.copysign(1, need)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name, dtype):
    for x, need in special_cases(name):
        (got,) = applied(name, np.array([x], dtype))
        assert same(got, float(dtype(need))), x


POWERS = [
    *((x, 0.0, 1) for x in (0.0, -0.0, 1.5, -2.5, INF, -INF, NAN)),
    *((1.0, y, 1) for y in (0.5, -3.0, INF, -INF, NAN, 1e300)),
    *((-1.0, y, 1) for y in (INF, -INF, 2.0, 1e300)),
    *((-1.0, 3.0, -1), (-1.0, 0.5, NAN), (-1.0, NAN, NAN), (NAN, 2.0, NAN)),
    *((0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0)),
    *((0.0, -3.0, INF), (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-0.0, -0.5, INF)),
    *((0.0, -INF, INF), (-0.0, INF, 0.0), (0.5, INF, 0.0), (0.5, -INF, INF)),
    *((-0.5, INF, 0.0), (-0.5, -INF, INF), (2.0, INF, INF), (-2.0, -INF, 0.0)),
    *((INF, 0.5, INF), (INF, -0.5, 0.0), (-INF, 3.0, -INF), (-INF, 2.5, INF)),
    *((-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, INF, INF), (INF, -INF, 0.0)),
    *((-8.0, 3.0, -512), (-8.0, -1.0, -0.125), (-8.0, 1 / 3, NAN), (-8.0, 2.0, 64)),
    *((-1.5, 2.0**24 - 1, -INF), (-1.5, 2.0**24, INF), (-1.5, 2.0**24 + 2, INF)),
    *((2.0, 0.5, math.sqrt(2)), (2.0, 127.0, 2.0**127), (3.0, 4.0, 81)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_special_values(dtype):
    with np.errstate(all="ignore"):
        x, y, need = (np.array(column, dtype) for column in zip(*POWERS, strict=True))
    for row in zip(x, y, applied("pow", x, y), need, strict=True):
        assert same(row[2], row[3]), row


def test_odd_exponents_are_told_from_even_ones_up_to_2_to_the_53():
    y = np.array([1, 2, 2.0**52 - 1, 2.0**52 + 1, 2.0**53 - 1, 2.0**53, 2.0**53 + 2])
    x = np.full(y.size, -1.0)
    assert applied("pow", x, y).tolist() == [-1, 1, -1, -1, -1, 1, 1]


@pytest.mark.parametrize(
    ("name", "least"), [("exp", -103.9), ("sigmoid", -103.9), ("silu", -108.0)]
)
def test_results_become_subnormal_and_then_zero(name, least):
    x = np.linspace(least - 2, -87, 400, dtype=np.float32)
    got = applied(name, x)
    assert (np.diff(np.abs(got)) >= 0).all()
    assert got[0] == 0
    assert len(set(got[(got != 0) & (np.abs(got) < 2.0**-126)].tolist())) > 100


@pytest.mark.parametrize("name", sorted(EXPANSIONS))
def test_numbers_have_the_bits_of_f64_arrays(name):
    rng = np.random.default_rng(6)
    if name == "pow":
        operands = [np.array(column) for column in list(zip(*POWERS, strict=True))[:2]]
    else:
        bits = rng.integers(0, 1 << 64, 200, np.uint64).view(np.float64)
        usual = [rng.normal(0, 4, 200), np.array([0.0, -0.0, INF, -INF, NAN, 5e-324])]
        operands = [np.concatenate([bits, *usual])]
    call = on_numbers(name)
    for *row, need in zip(*operands, applied(name, *operands), strict=True):
        got = call(*map(float, row))
        assert type(got) is float
        assert same(got, need), row
    assert name == "pow" or NUMBERS[name](0.5) == call(0.5)


@pytest.mark.parametrize("name", sorted(EXPANSIONS))
@pytest.mark.parametrize("dtype", [cc.f32, cc.f64], ids=str)
def test_literals_are_exact_or_meant_to_be_rounded(name, dtype):
    """An integer literal must fit, and every result has the operands' dtype."""
    emitter = _Checking()
    operands = [np.full(2, 0.5, dtype.numpy)] * (2 if name == "pow" else 1)
    result = EXPANSIONS[name](*(Term(emitter, x, dtype) for x in operands))
    assert result.dtype is dtype
    assert result.operand.dtype == dtype.numpy
    assert 20 < emitter.count < 300


class _Checking(ArrayEmitter):
    """Checks that primitives meet operands of one dtype, as C needs."""

    count = 0

    def apply(self, primitive, *args, dtype=None):
        self.count += 1
        values = args[1:] if primitive == "select" else args
        assert len({np.asarray(value).dtype for value in values}) == 1
        with np.errstate(all="ignore"):
            result = super().apply(primitive, *args, dtype=dtype)
        if dtype is not None:
            assert result.dtype == dtype.numpy
        return result

    def literal(self, value, dtype):
        half = 2 ** (8 * dtype.itemsize - 1)
        assert dtype.is_float or -half <= value < half
        return super().literal(value, dtype)


def test_pi_is_pi():
    assert float(PI) == math.pi

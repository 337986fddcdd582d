"""Dropout: Philox's numbers, how many are dropped, and the same in every layout."""

from __future__ import annotations

import numpy as np
import pytest
from small_programs import DP, M, N, program, tensor

import coconet as cc
from coconet.errors import DtypeError
from coconet.interp import random_arguments, run_program
from coconet.ops import Dropout, join_pieces
from coconet.ops.dropout import random_word
from coconet.plan.scalar import ArrayEmitter

SIZES = {"N": 37, "M": 11}

# known answers of Random123 1.14, tests/kat_vectors: counter, key, word 0
KNOWN = [
    ((0, 0, 0, 0), (0, 0), 0x6627E8D5),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, 0x408F276D),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        0xD16CFE09,
    ),
]


def words(number, seed, ordinal=0):
    with np.errstate(over="ignore"):
        return random_word(ArrayEmitter(), np.int64(number), np.int64(seed), ordinal)


def philox(counter, key):
    """Return word 0 with Python's integers."""
    mask = 0xFFFFFFFF
    a, b, c, d = counter
    k, m = key
    for turn in range(10):
        if turn:
            k, m = (k + 0x9E3779B9) & mask, (m + 0xBB67AE85) & mask
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (y >> 32) ^ b ^ k, y & mask, (x >> 32) ^ d ^ m, x & mask
    return a


@pytest.mark.parametrize(("counter", "key", "word"), KNOWN)
def test_the_check_itself_gives_the_known_answers(counter, key, word):
    assert philox(counter, key) == word


def test_words_are_philox():
    rng = np.random.default_rng(0)
    for number, seed in rng.integers(-(1 << 63), 1 << 63, (200, 2), np.int64).tolist():
        ordinal = number & 0xFF
        low, high = number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF
        key = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
        assert words(number, seed, ordinal) == philox((low, high, ordinal, 0), key)


@pytest.mark.parametrize("p", [0, 0.1, 0.5, 0.9, 1, 1.0])
@pytest.mark.parametrize("dtype", [cc.f32, cc.f64, cc.bf16, cc.f16])
def test_elements_are_dropped_or_scaled(p, dtype):
    x, seed = (
        cc.tensor("x", dtype, (N,), cc.Replicated(), DP),
        cc.scalar("seed", cc.i64),
    )
    made = program(cc.dropout(x, p, seed), inputs=[x, seed])
    count = 1 << 14
    ones = np.ones(count, dtype.numpy)
    found = run_program(made, 1, {"N": count}, {"x": [ones], "seed": 5})
    (result,) = next(iter(found.outputs.values()))
    kept = 0 if p == 1 else ones[:1].astype(np.float64) / (1 - p)
    assert set(np.unique(result).tolist()) <= {
        0.0,
        *np.asarray(kept, dtype.numpy).ravel().tolist(),
    }
    # six standard deviations
    share = (result == 0).mean()
    assert abs(share - p) <= 6 * np.sqrt(p * (1 - p) / count)


def test_nan_and_infinity_are_dropped_too():
    x, seed = tensor("x", shape=(N,)), cc.scalar("seed", cc.i64)
    made = program(cc.dropout(x, 0.5, seed), inputs=[x, seed])
    bad = np.full(1000, np.nan, np.float32)
    found = run_program(made, 1, {"N": 1000}, {"x": [bad], "seed": 1})
    (result,) = next(iter(found.outputs.values()))
    assert 400 < (result == 0).sum() < 600


@pytest.mark.parametrize("cut", [None, 0, 1, cc.FLAT, cc.ROWS(1)])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_same_elements_in_every_layout(cut, ranks):
    layout = cc.Replicated() if cut is None else cc.Sliced(cut)
    x, seed = tensor("x", layout, (M, N)), cc.scalar("seed", cc.i64)
    made = program(cc.dropout(x, 0.5, seed, 3), inputs=[x, seed])
    given = random_arguments(made, ranks, SIZES, 0) | {"seed": 7}
    arrays = next(iter(run_program(made, ranks, SIZES, given).outputs.values()))
    numbers = np.arange(11 * 37).reshape(11, 37)
    need = Dropout(0.5, 3).dropped(numbers, 7)
    whole = list(arrays) if cut is None else [join_pieces(arrays, (11, 37), cut)]
    for array in whole:
        np.testing.assert_array_equal(array == 0, need)


def test_dropouts_of_one_seed_differ_and_are_numbered_as_written():
    x, seed = tensor("x"), cc.scalar("seed", cc.i64)
    made = [
        cc.dropout(x, 0.5, seed),
        cc.dropout(x, 0.5, seed + 1),
        cc.dropout(x, 0.5, seed),
    ]
    assert [each.value.op.ordinal for each in made] == [0, 1, 2]
    assert cc.dropout(x, 0.5, seed, 9).value.op.ordinal == 9
    assert cc.dropout(x, 0.5, seed).value.op.ordinal == 10
    other = cc.scalar("seed", cc.i64)
    assert cc.dropout(x, 0.5, other).value.op.ordinal == 0
    numbers = np.arange(4096)
    first, second = (Dropout(0.5, n).dropped(numbers, 1) for n in (0, 1))
    assert 1800 < (first != second).sum() < 2300


def test_every_schedule_drops_the_same():
    g, b, r = tensor("g", cc.Local(), (M, N)), tensor("b"), tensor("r", shape=(M, N))
    seed = cc.scalar("seed", cc.i64)
    out = cc.dropout(cc.all_reduce(g) + b, 0.1, seed) + r
    made = program(out, inputs=[g, b, r, seed])
    found = cc.library(made)
    assert {"fused", "one_shot"} <= found.keys()
    for schedule in found.values():
        assert not cc.verify(schedule).mismatches


def test_what_it_is_not_for():
    x, n, s = (
        tensor("x"),
        cc.tensor("n", cc.i32, (N,), cc.Replicated(), DP),
        cc.scalar("s"),
    )
    seed = cc.scalar("seed", cc.i64)
    for wrong in (lambda: cc.dropout(n, 0.5, seed), lambda: cc.dropout(x, 0.5, s)):
        with pytest.raises(DtypeError):
            wrong()
    for p in (True, "0.5", None):
        with pytest.raises(TypeError):
            cc.dropout(x, p, seed)
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            cc.dropout(x, p, seed)
    with pytest.raises(TypeError):
        cc.dropout(x, 0.5, 1234)
    with pytest.raises(TypeError, match="never changes"):
        cc.dropout(x, 0.5, seed.lift(1))
    for ordinal in (-1, 1 << 32):
        with pytest.raises(ValueError, match="ordinal"):
            cc.dropout(x, 0.5, seed, ordinal)

"""The C helpers of 16-bit floats, against numpy: every half, and floats all over."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from coconet.backends.c.halves import HALVES
from coconet.runtime.build import build

LOOPS = """\
#include <stdint.h>
#include <string.h>
{halves}
#define LOOP(name, from, to, call) \\
  void name(long n, const from *x, to *y) {{ \\
    for (long i = 0; i < n; i++) y[i] = call(x[i]); \\
  }}
LOOP(from_f16, uint16_t, float, cc_from_f16)
LOOP(from_bf16, uint16_t, float, cc_from_bf16)
LOOP(to_f16, float, uint16_t, cc_to_f16)
LOOP(to_bf16, float, uint16_t, cc_to_bf16)
"""

HALF = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(build("halves", {"halves.c": LOOPS.format(halves=HALVES)})))


def run(function: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    function(
        ctypes.c_long(x.size),
        ctypes.c_void_p(x.ctypes.data),
        ctypes.c_void_p(y.ctypes.data),
    )
    return y


@pytest.mark.parametrize("name", HALF)
def test_every_half_becomes_its_float(library, name):
    bits = np.arange(1 << 16).astype(np.uint16)
    got = run(getattr(library, f"from_{name}"), bits, np.empty(bits.size, np.float32))
    need = bits.view(HALF[name]).astype(np.float32)
    same = (got.view(np.uint32) == need.view(np.uint32)) | (
        np.isnan(got) & np.isnan(need)
    )
    assert same.all()


@pytest.mark.parametrize("name", HALF)
def test_floats_round_to_the_nearest_even_half(library, name):
    everywhere = np.arange(0, 1 << 32, 257, np.uint64).astype(np.uint32)
    # and every half with its neighbours and midpoints, where rounding is decided
    halves = np.arange(1 << 16).astype(np.uint16).view(HALF[name]).astype(np.float32)
    borders = halves.view(np.uint32)[:, None] + np.array(
        [0, 1, -1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001], np.int64
    )
    bits = np.concatenate([everywhere, borders.astype(np.uint32).reshape(-1)])
    x = bits.view(np.float32)
    got = run(getattr(library, f"to_{name}"), x, np.empty(x.size, np.uint16))
    with np.errstate(all="ignore"):
        need = x.astype(HALF[name])
    is_nan = np.isnan(got.view(HALF[name]).astype(np.float32))
    same = (got == need.view(np.uint16)) | (is_nan & np.isnan(x))
    assert same.all()
    assert (is_nan == np.isnan(x)).all()

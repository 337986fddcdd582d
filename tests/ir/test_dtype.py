"""Element types: sizes, kinds, and the numpy dtype of the same bits."""

import numpy as np
import pytest

from coconet.ir import DTYPES, DType, bool_, f16, f32, f64, i64, scalar_type


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_numpy_has_the_same_bits_and_leads_back(dtype):
    assert dtype.numpy.itemsize == dtype.itemsize
    assert DType.of(dtype.numpy) is dtype


def test_there_are_eleven_and_their_names_are_keys():
    assert len(DTYPES) == 11
    assert all(name == repr(dtype) for name, dtype in DTYPES.items())


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_kinds_agree_with_the_range(dtype):
    sample = np.zeros(1, dtype.numpy)
    assert dtype.is_float == (dtype.name in ("f16", "bf16", "f32", "f64"))
    if dtype.kind == "uint":
        assert (sample - 1 > 0).all()
    if dtype.kind == "int":
        assert (sample - 1 < 0).all()


def test_unknown_bits_have_no_dtype():
    assert DType.of(np.dtype(np.complex64)) is None
    assert DType.of(np.dtype(np.int16)) is None


def test_scalars_are_f64_or_i64():
    assert str(scalar_type(f64)) == "f64 scalar"
    assert scalar_type(i64).is_scalar
    for dtype in (f32, f16, bool_):
        with pytest.raises(ValueError, match="f64 or i64"):
            scalar_type(dtype)

"""What cuts, collectives and memory are, said once more with numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import coconet as cc

__all__ = ["FORMS", "check", "drawn", "pieces", "reduced", "stretched"]

FOLDS = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def pieces(whole: Any, cut: Any, ranks: int) -> list[Any]:
    """Return what each rank has of a tensor."""
    if isinstance(cut, int):
        turned = np.moveaxis(whole, cut, 0)
        return [np.moveaxis(part, 0, cut) for part in _chunks(turned, ranks, 1)]
    if cut == cc.FLAT:
        return _chunks(whole.reshape(-1), ranks, 64)
    kept = whole.shape[whole.ndim - cut.k :]
    rows = int(np.prod(whole.shape[: whole.ndim - cut.k]))
    return _chunks(whole.reshape(rows, *kept), ranks, 1)


def _chunks(rows: Any, ranks: int, multiple: int) -> list[Any]:
    step = -(-len(rows) // ranks)
    step = -(-step // multiple) * multiple
    return [rows[i * step : (i + 1) * step] for i in range(ranks)]


def reduced(op: str, arrays: Sequence[Any]) -> Any:
    """Return the fold in rank order; 16 bits are folded in f32 and rounded once."""
    dtype = arrays[0].dtype
    wide = np.dtype(np.float32) if _is_half(dtype) else dtype
    total = arrays[0].astype(wide)
    with np.errstate(all="ignore"):
        for array in arrays[1:]:
            total = FOLDS[op](total, array.astype(wide))
        if op == "mean":
            total = total / wide.type(len(arrays))
        return np.asarray(total, wide).astype(dtype)


def _is_half(dtype: Any) -> bool:
    return dtype.itemsize == 2 and dtype.kind not in "iub"


def drawn(dtype: cc.DType, shape: Sequence[int], *key: int) -> Any:
    """Return numbers of both signs; whole ones if the dtype says so."""
    rng = np.random.default_rng(key)
    if dtype.is_float:
        return rng.uniform(-2, 2, shape).astype(dtype.numpy)
    return rng.integers(0 if dtype.kind == "uint" else -9, 10, shape, dtype.numpy)


def check(what: str, got: Any, need: Any) -> None:
    """Raise AssertionError unless two arrays have the same bits."""
    got, need = np.asarray(got), np.asarray(need)
    assert (got.dtype, got.shape) == (need.dtype, need.shape), (
        f"{what}: {got.dtype}{got.shape} should be {need.dtype}{need.shape}"
    )
    assert got.tobytes() == need.tobytes(), f"{what}: {got!r} should be {need!r}"


def symmetric(array: Any) -> Any:
    made = cc.empty(array.shape, cc.DType.of(array.dtype))
    made[...] = array
    return made


def turned(array: Any) -> Any:
    return array.transpose().copy().transpose()


def columns(array: Any) -> Any:
    """Lie as one column of many, with other numbers between."""
    return np.stack([array, array + array.dtype.type(1)], axis=-1)[..., 0]


def offset(array: Any) -> Any:
    """Lie in the middle of a larger tensor."""
    wide = np.pad(array, 1)
    return wide[tuple(slice(1, -1) for _ in array.shape)]


def backwards(array: Any) -> Any:
    reverse = tuple(slice(None, None, -1) for _ in array.shape)
    return array[reverse].copy()[reverse]


def unaligned(array: Any) -> Any:
    """Lie at an odd address."""
    memory = bytearray(array.nbytes + 1)
    made = np.frombuffer(memory, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


FORMS = {
    "plain": np.array,
    "symmetric": symmetric,
    "turned": turned,
    "columns": columns,
    "offset": offset,
    "backwards": backwards,
    "unaligned": unaligned,
}
"""The same numbers in all kinds of memory, writable."""


def stretched(array: Any) -> Any:
    """Repeat the first number with stride 0, as expand and the gradient of sum do."""
    first = array.reshape(-1)[:1]
    return np.broadcast_to(first if array.size else array.dtype.type(0), array.shape)

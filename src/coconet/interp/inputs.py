"""Random arguments that show mistakes: mixed signs, different on every rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coconet.ir import (
    Local,
    Program,
    Sliced,
    TensorType,
    bind_shape,
)
from coconet.ops import take_piece

__all__ = ["random_arguments", "random_whole"]

Array = NDArray[Any]


def random_arguments(
    program: Program, ranks: int, sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """Return arguments for `run_program`: arrays per rank, and numbers for scalars.

    A tensor's values depend on its name, its global shape and the seed, not on its
    layout: a Sliced input gets pieces of what a Replicated one would get whole.
    Scalars are taken in (0, 1); integer ones are 1 to 9.
    """
    arguments: dict[str, Any] = {}
    for value in program.inputs:
        key = [seed, *value.name.encode()]
        if value.type.is_scalar:
            rng = np.random.default_rng(key)
            drawn = rng.uniform(0.001, 0.999), int(rng.integers(1, 10))
            arguments[value.name] = drawn[0 if value.type.dtype.is_float else 1]
        else:
            arguments[value.name] = _tensor(value.type, ranks, sizes, key)
    return arguments


def _tensor(
    type_: TensorType, ranks: int, sizes: Mapping[str, int], key: list[int]
) -> list[Array]:
    shape = bind_shape(type_.shape, sizes)
    if isinstance(type_.layout, Local):
        return [random_whole(type_, shape, [*key, rank]) for rank in range(ranks)]
    whole = random_whole(type_, shape, key)
    if isinstance(type_.layout, Sliced):
        cut = type_.layout.cut
        return [take_piece(whole, cut, rank, ranks).copy() for rank in range(ranks)]
    return [whole.copy() for _ in range(ranks)]


def random_whole(type_: TensorType, shape: tuple[int, ...], key: list[int]) -> Array:
    """Return one array: reals in (-2, 2), small integers, or bools."""
    rng = np.random.default_rng(key)
    dtype = type_.dtype
    if dtype.is_float:
        return rng.uniform(-2, 2, shape).astype(dtype.numpy)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = -9 if dtype.kind == "int" else 0
    return rng.integers(low, 10, shape).astype(dtype.numpy)

"""The least that a program can move, however it is scheduled."""

from __future__ import annotations

from collections.abc import Mapping

from coconet.ir import (
    FLAT,
    Domain,
    Program,
    Replicated,
    Sliced,
    Value,
    bind_shape,
    numel,
)

__all__ = ["least_bytes"]


def least_bytes(program: Program, ranks: int, sizes: Mapping[str, int]) -> int:
    """Return the least bytes that the rank with most to do reads and writes.

    A rank must read its part of everything that is passed, and of what is Local as much
    as one rank has: its part of every rank's.  It must write all that its caller gets,
    or, what is the same amount, its part of it on every rank.  A program may need more.
    """
    read = sum(_part(value, ranks, sizes) for value in program.tensors)
    written = [update.inputs[0] for update in program.effects]
    results = [v for v in program.outputs if v not in program.effects]
    return read + sum(_held(value, ranks, sizes) for value in (*written, *results))


def _part(value: Value, ranks: int, sizes: Mapping[str, int]) -> int:
    """Return bytes of this rank's share of the work on a value."""
    type_ = value.type
    if not isinstance(type_.layout, Replicated):
        return _held(value, ranks, sizes)
    domain = Domain.of(bind_shape(type_.shape, sizes), FLAT)
    return domain.piece_numel(0, ranks) * type_.dtype.itemsize


def _held(value: Value, ranks: int, sizes: Mapping[str, int]) -> int:
    """Return bytes of a value that a rank holds."""
    shape, layout = bind_shape(value.type.shape, sizes), value.type.layout
    if isinstance(layout, Sliced):
        count = Domain.of(shape, layout.cut).piece_numel(0, ranks)
    else:
        count = numel(shape)
    return count * value.type.dtype.itemsize

"""Run a program on all ranks of its group, op by op: the definition of its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from coconet.errors import ShapeError
from coconet.ir import Program, Sliced, TensorType, Value, bind_shape
from coconet.ir.layout import piece_shape
from coconet.ops import Op, Ranked

__all__ = ["Arguments", "Results", "bind_type", "run_program"]

Array = NDArray[Any]

Arguments = Mapping[str, Any]
"""By input name: one array per rank (a piece in the shape of `piece_shape`), or for a
scalar its number."""


@dataclass(frozen=True, slots=True)
class Results:
    """What a run gives: per name, one array per rank.

    outputs  the program's outputs, in order, by name
    effects  the new value of each updated input, by the input's name
    """

    outputs: dict[str, tuple[Array, ...]]
    effects: dict[str, tuple[Array, ...]]


def bind_type(type_: TensorType, sizes: Mapping[str, int]) -> TensorType:
    """Return the type with numbers for its symbols."""
    return replace(type_, shape=bind_shape(type_.shape, sizes))


def run_program(
    program: Program, ranks: int, sizes: Mapping[str, int], arguments: Arguments
) -> Results:
    """Run on `ranks` simulated ranks; the arguments are not changed.

    sizes gives each symbolic dim a number.
    Raises ShapeError if an argument has not the shape that its type and rank call for.
    """
    known: dict[Value, Ranked] = {}
    for value in program.inputs:
        type_ = bind_type(value.type, sizes)
        known[value] = _argument(value.name, type_, ranks, arguments[value.name])
    for value in program.values:
        op = value.op
        assert isinstance(op, Op)
        inputs = tuple(known[source] for source in value.inputs)
        arrays = op.reference(*inputs, sizes=sizes)
        known[value] = Ranked(bind_type(value.type, sizes), arrays)
    return Results(
        outputs={value.name: known[value].arrays for value in program.outputs},
        effects={v.inputs[0].name: known[v].arrays for v in program.effects},
    )


def _argument(name: str, type_: TensorType, ranks: int, given: Any) -> Ranked:
    if type_.is_scalar:
        number = float(given) if type_.dtype.is_float else int(given)
        return Ranked(type_, (number,))
    arrays: Sequence[Array] = given
    if len(arrays) != ranks:
        raise ShapeError(
            f"{name!r} needs an array per rank", got=len(arrays), need=ranks
        )
    for position, array in enumerate(arrays):
        shape = bind_shape(type_.shape, {})
        if isinstance(type_.layout, Sliced):
            shape = piece_shape(shape, type_.layout.cut, position, ranks)
        if array.shape != shape or array.dtype != type_.dtype.numpy:
            raise ShapeError(
                f"{name!r} on rank {position} does not fit its type",
                got=f"{array.dtype}{list(array.shape)}",
                need=f"{type_.dtype}{list(shape)}",
            )
    return Ranked(type_, tuple(arrays))

"""Named predicates: what makes a step legal.  No target is known here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TypeVar

from coconet.errors import ScheduleError
from coconet.ir import FLAT, Cut, Program, Shape, Sliced, Value
from coconet.ops import (
    AllGather,
    AllReduce,
    Cast,
    Concat,
    Dropout,
    Elementwise,
    Index,
    Reduce,
    ReduceScatter,
    Reshape,
    Transpose,
    Update,
    Where,
)

__all__ = [
    "acts_on_each_element",
    "ancestors",
    "descendants",
    "find",
    "folds_rows",
    "is_collective",
    "leaves_and_returns",
    "loop_cut",
    "loop_order",
    "loop_shape",
    "reached",
    "reads_elsewhere",
    "reads_peers",
    "require_no_fusion",
]

T = TypeVar("T", bound=Hashable)


def find(program: Program, name: str, verb: str) -> Value:
    """Return the value of this name; raises ScheduleError if there is none."""
    for value in (*program.inputs, *program.values):
        if value.name == name:
            return value
    raise ScheduleError(
        f"{verb} names a value that program {program.name!r} does not have",
        got=name,
        need=", ".join(value.name for value in program.values),
    )


def acts_on_each_element(value: Value) -> bool:
    """Whether each element of the result depends on the same element of the inputs."""
    return isinstance(value.op, Elementwise | Where | Cast | Dropout | Update)


def is_collective(value: Value) -> bool:
    """Whether ranks exchange data for this value."""
    return isinstance(value.op, AllReduce | ReduceScatter | AllGather)


def reads_peers(value: Value) -> bool:
    """Whether this value is computed from the memory of other ranks."""
    return isinstance(value.op, AllReduce | ReduceScatter)


def reads_elsewhere(value: Value) -> bool:
    """Whether an element is computed from another place of the input than its own."""
    return isinstance(value.op, Transpose | Index | Reshape | Concat)


def descendants(program: Program, start: Value) -> set[Value]:
    """Return everything computed from a value, itself left out."""
    return reached(program.users(start), program.users)


def ancestors(ends: Iterable[Value]) -> set[Value]:
    """Return everything these values are computed from, and the values themselves."""
    return reached(ends, lambda value: value.inputs)


def reached(starts: Iterable[T], onward: Callable[[T], Iterable[T]]) -> set[T]:
    """Return what can be reached from these, them included, by steps onward."""
    found: set[T] = set()
    stack = list(starts)
    while stack:
        item = stack.pop()
        if item not in found:
            found.add(item)
            stack += onward(item)
    return found


def leaves_and_returns(program: Program, members: Collection[Value]) -> Value | None:
    """Return a value outside on a path between two members, or None if convex.

    A kernel is entered at one member and left at another: all wait for its start.
    """

    def before(value: Value) -> tuple[Value, ...]:
        fusion = program.fusion_of(value)
        return (*value.inputs, *(fusion.members if fusion else ()))

    needed = reached(members, before)
    for member in members:
        for user in program.users(member):
            if user not in members and user in needed:
                return user
    return None


def loop_shape(value: Value) -> Shape:
    """Return the global shape over which a kernel runs for this value, as declared."""
    return (value.inputs[0] if isinstance(value.op, Reduce) else value).type.shape


def loop_order(value: Value) -> tuple[int, ...]:
    """Return the order of the dims over which a kernel runs for this value.

    A reduction over dims that are not neighbours runs over the dims that it keeps, then
    over those that it folds.
    """
    rank = len(loop_shape(value))
    natural = tuple(range(rank))
    if not isinstance(value.op, Reduce):
        return natural
    folded = value.op.folded(rank)
    if not folded or folded == natural[folded[0] : folded[-1] + 1]:
        return natural
    return (*(dim for dim in natural if dim not in folded), *folded)


def folds_rows(value: Value) -> bool:
    """Whether a reduction folds what is consecutive: the last dims, or all."""
    assert isinstance(value.op, Reduce)
    rank = len(loop_shape(value))
    folded = value.op.folded(rank)
    return folded == tuple(range(rank - len(folded), rank))


def loop_cut(value: Value, members: Collection[Value]) -> Cut | None:
    """Return over what a kernel of these members runs for this value.

    None is every element on each rank; a cut is each rank's own piece.  An all-reduce
    that is alone runs over pieces by FLAT and writes each on every rank; with others in
    its kernel, each rank combines everything for itself.
    """
    op = value.op
    if isinstance(op, AllGather | Reduce):
        return _cut(value.inputs[0])
    if isinstance(op, AllReduce) and len(members) == 1:
        return FLAT
    if isinstance(op, Update):
        source = value.inputs[1]
        if source in members and isinstance(source.op, AllGather):
            return _cut(source.inputs[0])
    return _cut(value)


def _cut(value: Value) -> Cut | None:
    layout = value.type.layout
    return layout.cut if isinstance(layout, Sliced) else None


def require_no_fusion(program: Program, values: Iterable[Value], verb: str) -> None:
    """Raise ScheduleError if a kernel was already made of some of these values."""
    for value in values:
        fusion = program.fusion_of(value)
        if fusion is not None:
            raise ScheduleError(
                f"{verb} would tear the kernel {fusion.name!r} apart",
                got=value.name,
                need="values that are not fused yet",
                fix=f"{verb} before fuse",
                at=value.at,
            )

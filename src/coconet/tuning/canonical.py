"""One text for all programs that differ only in names, and in what order does not tell.

Two programs with equal texts compute the same, in the same kernels.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from hashlib import sha256

from coconet.ir import Program, Value

__all__ = ["canonical"]

_Colours = Mapping[Value, str]


def canonical(program: Program) -> str:
    """Return the program with values numbered by what they are, not by their names.

    Inputs keep their order, by which the caller passes them, and outputs theirs.
    """
    number = {value: i for i, value in enumerate(_canonical_order(program))}

    def text(values: Iterable[Value]) -> str:
        return " ".join(f"%{number[value]}" for value in values)

    def ordered(values: Iterable[Value]) -> str:
        return text(sorted(values, key=number.__getitem__))

    lines = [f"%{i} = {_label(v)} {text(v.inputs)}" for v, i in number.items()]
    lines.append(f"return {text(program.outputs)}")
    lines.append(f"update {ordered(program.effects)}")
    lines += sorted(f"kernel {ordered(members)}" for members in _kernels(program))
    return "\n".join(lines)


def _kernels(program: Program) -> Iterable[tuple[Value, ...]]:
    """Return the members of every kernel that is more than its only value."""
    return (f.members for f in program.fusions if len(f.members) > 1)


def _label(value: Value) -> str:
    return f"{value.op!r}: {value.type} {value.type.group!r}"


def _canonical_order(program: Program) -> list[Value]:
    """Return inputs, then values after what they read, the least colour first."""
    colours = _colours(program)
    place = {value: i for i, value in enumerate((*program.inputs, *program.values))}
    order: dict[Value, None] = dict.fromkeys(program.inputs)
    missing = {v: len(set(v.inputs) - order.keys()) for v in program.values}
    ready = [(colours[v], place[v], v) for v in program.values if not missing[v]]
    heapq.heapify(ready)
    while ready:
        _, _, value = heapq.heappop(ready)
        order[value] = None
        for user in program.users(value):
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (colours[user], place[user], user))
    return list(order)


def _colours(program: Program) -> _Colours:
    """Return what tells values apart: how they are made, read, returned and fused.

    Refined until no more values differ; what then has one colour is interchangeable.
    """
    colours = _made_from(program)
    distinct = 0
    while len(set(colours.values())) > distinct:
        distinct = len(set(colours.values()))
        colours = _refined(program, colours)
    return colours


def _made_from(program: Program) -> _Colours:
    outputs = {value: i for i, value in enumerate(program.outputs)}
    colours: dict[Value, str] = {}
    for position, value in enumerate(program.inputs):
        colours[value] = _digest([str(position), _label(value)])
    for value in program.values:
        role = f"{outputs.get(value)} {value in program.effects}"
        sources = [colours[source] for source in value.inputs]
        colours[value] = _digest([_label(value), role, *sources])
    return colours


def _refined(program: Program, colours: _Colours) -> _Colours:
    """Return colours that also tell what the values read, their readers and kernels."""
    beside = {v: members for members in _kernels(program) for v in members}

    def around(value: Value) -> Iterable[str]:
        yield colours[value]
        yield from (colours[source] for source in value.inputs)
        yield "read by"
        yield from sorted(
            f"{colours[user]} {user.inputs.index(value)}"
            for user in program.users(value)
        )
        yield "beside"
        yield from sorted(colours[other] for other in beside.get(value, ()))

    return {value: _digest(around(value)) for value in colours}


def _digest(parts: Iterable[str]) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()

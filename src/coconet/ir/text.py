"""Printing programs in the language they are written in; dsl/parse.py reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from coconet.ir.names import default_names, spans
from coconet.ir.program import Program
from coconet.ir.value import Value, needed_by

__all__ = ["program_text"]

_WIDTH = 58
"""Column of the comment that gives a value's type and source line."""

_DEEPEST = 30
"""How many values are printed inside each other before one gets its own line."""


def program_text(program: Program) -> str:
    """Return the program as text: inputs, scalars, values with kernels as blocks.

    A value the user gave no name and that is read once is printed where it is read.
    Without its comments, the text is all of the program that `same_program` compares.
    """
    inlined = _inlined(program)
    on = f" on {', '.join(map(repr, program.groups))}" if program.groups else ""
    lines = [f"program {program.name}{on}"]
    lines += [_declaration(program, value) for value in program.inputs]
    for value in program.values:
        if value.type.is_scalar and value not in inlined:
            lines.append(_statement(value, inlined, indent="  "))
    tensors: list[Value] = []
    for part in _parts(program):
        fusion = program.fusion_of(part[0])
        if fusion:
            lines.append(f"  fused {fusion.name}:")
        indent = "    " if fusion else "  "
        shown = [value for value in part if value not in inlined]
        lines += [_statement(value, inlined, indent) for value in shown]
        tensors += shown
    if program.outputs:
        lines.append("  return " + ", ".join(value.name for value in program.outputs))
    return "\n".join([*lines, *_unnamed(program, tensors, inlined)])


def _declaration(program: Program, value: Value) -> str:
    several = len(program.groups) > 1 and not value.type.is_scalar
    on = f" on {value.type.group!r}" if several else ""
    return f"  {value.name:<10} {value.type}{on}"


def _statement(value: Value, inlined: Collection[Value], indent: str) -> str:
    line = f"{indent}{value.name} = {_render(value, inlined)[0]}"
    note = f"# {value.type}" + (f"  {value.at}" if value.loc else "")
    return f"{line:<{_WIDTH}} {note}"


def _unnamed(
    program: Program, tensors: Sequence[Value], inlined: Collection[Value]
) -> Iterator[str]:
    """Yield a line with the names of inlined values, if they are not the default."""
    ends = {*program.outputs, *program.effects}
    roots = [v for v in tensors if v in ends or not program.users(v)]
    inputs = set(program.inputs)
    order = [value for value in needed_by(roots) if value not in inputs]
    given = ["" if value in inlined else value.name for value in order]
    if default_names(given) != [value.name for value in order]:
        names = [value.name for value in order if value in inlined]
        yield f"  unnamed {spans(names)}"


def _parts(program: Program) -> Iterator[tuple[Value, ...]]:
    """Yield each tensor, or whole kernel, after what it reads."""
    tensors = [value for value in program.values if not value.type.is_scalar]
    fusions = {value: f for f in program.fusions for value in f.members}
    parts = dict.fromkeys(fusions[v].members if v in fusions else (v,) for v in tensors)
    waiting, missing = list(parts), set(tensors)
    while waiting:
        ready = (
            part
            for part in waiting
            if all(missing.isdisjoint(set(v.inputs) - set(part)) for v in part)
        )
        part = next(ready, waiting[0])
        waiting.remove(part)
        missing -= set(part)
        yield part


def _inlined(program: Program) -> Collection[Value]:
    """Return the values that are printed where they are read, up to some depth."""
    depth: dict[Value, int] = {}
    for value in program.values:
        inside = 1 + max((depth.get(source, 0) for source in value.inputs), default=0)
        if inside <= _DEEPEST and _may_be_inlined(program, value):
            depth[value] = inside
    return depth.keys()


def _may_be_inlined(program: Program, value: Value) -> bool:
    if not value.name.startswith("_"):
        return False
    users = program.users(value)
    is_read_once = len(users) == 1 and users[0].inputs.count(value) == 1
    if not is_read_once or value in program.outputs or value in program.effects:
        return False
    if value.type.is_scalar:
        return True
    return program.fusion_of(value) is program.fusion_of(users[0])


def _render(value: Value, inlined: Collection[Value]) -> tuple[str, int]:
    """Return text and how tightly it binds (higher binds tighter)."""
    sources = (
        _render(source, inlined) if source in inlined else (source.name, 100)
        for source in value.inputs
    )
    return value.op.text(*sources)

"""Printing programs in the language they are written in."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from coconet.ir.program import Program
from coconet.ir.value import Value

__all__ = ["program_text"]

_WIDTH = 58
"""Column of the comment that gives a value's type and source line."""

_DEEPEST = 30
"""How many values are printed inside each other before one gets its own line."""


def program_text(program: Program) -> str:
    """Return the program as text: inputs, scalars, values with kernels as blocks.

    A value the user gave no name and that is read once is printed where it is read.
    """
    inlined = _inlined(program)
    groups = ", ".join(repr(group) for group in program.groups)
    lines = [f"program {program.name}" + (f"  # {groups}" if groups else "")]
    lines += [f"  {value.name:<10} {value.type}" for value in program.inputs]
    for value in program.values:
        if value.type.is_scalar and value not in inlined:
            lines.append(_statement(value, inlined, indent="  "))
    for part in _parts(program):
        fusion = program.fusion_of(part[0])
        if fusion:
            lines.append(f"  fused {fusion.name}:")
        indent = "    " if fusion else "  "
        shown = (value for value in part if value not in inlined)
        lines += [_statement(value, inlined, indent) for value in shown]
    if program.outputs:
        lines.append("  return " + ", ".join(value.name for value in program.outputs))
    return "\n".join(lines)


def _statement(value: Value, inlined: Collection[Value], indent: str) -> str:
    line = f"{indent}{value.name} = {_render(value, inlined)[0]}"
    note = f"# {value.type}" + (f"  {value.at}" if value.loc else "")
    return f"{line:<{_WIDTH}} {note}"


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

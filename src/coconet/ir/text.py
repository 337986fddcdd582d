"""Printing programs in the language they are written in."""

from __future__ import annotations

from coconet.ir.program import Program
from coconet.ir.value import Value

__all__ = ["expression_text", "program_text"]

_WIDTH = 58
"""Column of the comment that gives a value's type and source line."""


def program_text(program: Program) -> str:
    """Return the program as text: inputs, scalars, values with kernels as blocks.

    A value the user gave no name and that is read once is printed where it is read.
    """
    groups = ", ".join(repr(group) for group in program.groups)
    lines = [f"program {program.name}" + (f"  # {groups}" if groups else "")]
    lines += [f"  {value.name:<10} {value.type}" for value in program.inputs]
    done: set[str] = set()
    scalars = [value for value in program.values if value.type.is_scalar]
    for value in scalars:
        lines += _statement(program, value, indent="  ")
    for value in program.values:
        if value.type.is_scalar:
            continue
        fusion = program.fusion_of(value)
        if fusion is None:
            lines += _statement(program, value, indent="  ")
        elif fusion.name not in done:
            done.add(fusion.name)
            lines.append(f"  fused {fusion.name}:")
            for member in fusion.members:
                lines += _statement(program, member, indent="    ")
    if program.outputs:
        lines.append("  return " + ", ".join(value.name for value in program.outputs))
    return "\n".join(lines)


def expression_text(program: Program, value: Value) -> str:
    """Return the right-hand side of a value's statement."""
    return _render(program, value)[0]


def _statement(program: Program, value: Value, indent: str) -> list[str]:
    if _is_inlined(program, value):
        return []
    line = f"{indent}{value.name} = {expression_text(program, value)}"
    note = f"# {value.type}" + (f"  {value.at}" if value.loc else "")
    return [f"{line:<{_WIDTH}} {note}"]


def _is_inlined(program: Program, value: Value) -> bool:
    if not value.name.startswith("_"):
        return False
    users = program.users(value)
    is_read_once = len(users) == 1 and users[0].inputs.count(value) == 1
    if not is_read_once or value in program.outputs or value in program.effects:
        return False
    if value.type.is_scalar:
        return True
    return program.fusion_of(value) is program.fusion_of(users[0])


def _render(program: Program, value: Value) -> tuple[str, int]:
    """Return text and how tightly it binds (higher binds tighter)."""
    sources: list[tuple[str, int]] = []
    for source in value.inputs:
        if source in program.values and _is_inlined(program, source):
            sources.append(_render(program, source))
        else:
            sources.append((source.name, 100))
    return value.op.text(*sources)

"""Is this program well formed?  Run after every step of a schedule."""

from __future__ import annotations

from collections import Counter

from coconet.errors import InternalError
from coconet.ir.program import Program
from coconet.ir.value import Value

__all__ = ["verify_program"]


def verify_program(program: Program) -> None:
    """Check names, order, types, outputs and fusions.

    Raises InternalError: users' mistakes are refused before they reach a program.
    """
    _check_names(program)
    _check_order(program)
    for value in program.values:
        inferred = value.op.infer(*(source.type for source in value.inputs))
        if inferred != value.type:
            raise InternalError(f"{value} has the wrong type", got=inferred)
    for value in (*program.outputs, *program.effects):
        if value not in program:
            raise InternalError(f"{value} is an output, but not in {program.name!r}")
    _check_fusions(program)


def _check_names(program: Program) -> None:
    names = Counter(value.name for value in (*program.inputs, *program.values))
    twice = [name for name, count in names.items() if count > 1 or not name]
    if twice:
        raise InternalError(f"names are not unique in {program.name!r}", got=twice)


def _check_order(program: Program) -> None:
    seen: set[Value] = set(program.inputs)
    for value in program.values:
        late = [source for source in value.inputs if source not in seen]
        if late:
            raise InternalError(f"{value} stands before what it reads", got=late)
        seen.add(value)


def _check_fusions(program: Program) -> None:
    members = Counter(m for fusion in program.fusions for m in fusion.members)
    for member, count in members.items():
        if count > 1 or member not in program:
            raise InternalError(f"{member} is in {count} fusions, or not in program")

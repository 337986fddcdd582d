"""Plans: a program as instructions for one rank of a group."""

from __future__ import annotations

from dataclasses import dataclass

from coconet.ir import Dim
from coconet.plan.buffer import Buffer, Role
from coconet.plan.instr import Instruction
from coconet.plan.scalar import ScalarExpr

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What each of `ranks` processes runs.

    name     the program's
    group    the name of the program's group
    buffers  arguments in the caller's order, then results in order, then scratch
    updated  names of the arguments that the plan writes
    scalars  names of the scalar arguments, in the caller's order
    scalar_kinds  "f64" or "i64" for each
    consts   scalar expressions, evaluated once per call
    dims     symbolic extents, given by the arguments' shapes
    body     the instructions
    waits    for messages: what each wait waits for; 0 is the arrival
    """

    name: str
    group: str
    ranks: int
    buffers: tuple[Buffer, ...]
    updated: frozenset[str]
    scalars: tuple[str, ...]
    scalar_kinds: tuple[str, ...]
    consts: tuple[ScalarExpr, ...]
    dims: tuple[Dim, ...]
    body: tuple[Instruction, ...]
    waits: tuple[str, ...]

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of this name."""
        return next(buffer for buffer in self.buffers if buffer.name == name)

    def with_role(self, role: Role) -> tuple[Buffer, ...]:
        """Return the buffers of this role, in order."""
        return tuple(buffer for buffer in self.buffers if buffer.role is role)

    def __str__(self) -> str:
        """Return the plan as text."""
        from coconet.plan.text import plan_text

        return plan_text(self)

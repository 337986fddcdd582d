"""Values: the nodes of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coconet.ir.location import Location
from coconet.ir.types import TensorType

__all__ = ["Operation", "Value", "needed_by"]


class Operation(Protocol):
    """What the IR needs to know of an op: its result's type, and its syntax."""

    def infer(self, *inputs: Any, **_: Any) -> TensorType:
        """Return the type of the result, or raise a ProgramError."""
        ...

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return the op applied to these texts, and how tightly the result binds.

        Each text comes with how tightly it binds: 100 for a name or a call, less for
        operators, as in Python.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One result of one operation; two values are equal only if they are one object.

    op       what made it (an Input, for what the caller passes)
    inputs   what it was made from
    type     dtype, shape, layout and group
    name     unique in its program; "" until the program names it
    loc      the user's line, or None
    made_by  the transformation that made it, or "" for the user
    """

    op: Operation
    inputs: tuple[Value, ...]
    type: TensorType
    name: str = ""
    loc: Location | None = None
    made_by: str = ""

    @property
    def at(self) -> str:
        """The user's `file.py:line`, or ""."""
        return str(self.loc) if self.loc else ""

    def __repr__(self) -> str:
        """Return name and type."""
        return f"{self.name or '?'}: {self.type}"


def needed_by(values: Sequence[Value]) -> list[Value]:
    """Return these values and all they are made from, each after its inputs."""
    order: dict[Value, None] = {}
    stack = [(value, False) for value in reversed(values)]
    while stack:
        value, is_ready = stack.pop()
        if value in order:
            continue
        if is_ready:
            order[value] = None
            continue
        stack.append((value, True))
        stack += [(source, False) for source in reversed(value.inputs)]
    return list(order)

"""Values: the nodes of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coconet.ir.location import Location
from coconet.ir.types import TensorType

__all__ = ["Operation", "Value", "needed_by", "said"]

_DEEPEST = 3  # operations inside each other in such an expression
_LONGEST = 48  # characters of an expression that stands for a name


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


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
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
        return f"{said(self)}: {self.type}"


def said(*values: Value) -> str:
    """Return what messages call values: the user's name, or else the expression."""
    texts = (_short(_expression(value, _DEEPEST)[0]) for value in values)
    return ", ".join(texts) or "nothing"


def _expression(value: Value, depth: int) -> tuple[str, int]:
    """Return an expression as text, its depth bounded, and how tightly it binds."""
    if value.name and not value.name.startswith("_"):
        return value.name, 100
    if depth == 0 and value.inputs:
        return "..", 100
    return value.op.text(*(_expression(source, depth - 1) for source in value.inputs))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]}.."


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

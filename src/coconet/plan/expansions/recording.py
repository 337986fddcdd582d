"""Expansions recorded once, to be run on numbers again and again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coconet.ir import DType, f64
from coconet.plan.expansions.term import Term

__all__ = ["Recording"]


@dataclass(slots=True)
class Recording:
    """The primitives of an expansion in f64, in order.

    values  per slot: a literal, or None for an operand or a result; operands come first
    steps   the slot of a result, the primitive, and the slots of its arguments
    """

    values: list[float | int | None] = field(default_factory=list[float | int | None])
    steps: list[tuple[int, str, tuple[int, ...]]] = field(
        default_factory=list[tuple[int, str, tuple[int, ...]]]
    )

    def operand(self) -> Term:
        """Return a further operand."""
        return Term(self, self.literal(None, f64), f64)

    def apply(self, primitive: str, *args: Any, dtype: DType | None = None) -> int:
        """Record a primitive; returns its slot."""
        slot = self.literal(None, f64)
        self.steps.append((slot, primitive, args))
        return slot

    def literal(self, value: float | int | None, dtype: DType) -> int:
        """Record a literal; returns its slot."""
        self.values.append(value)
        return len(self.values) - 1

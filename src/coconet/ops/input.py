"""What a program starts from: the caller's tensors and scalars, and literals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError, InternalError
from coconet.ir import Sliced, TensorType, Work, f64, i64, scalar_type
from coconet.ops.op import Emitter, Op
from coconet.ops.slice_ import check_cut

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["Input", "Literal"]


@dataclass(frozen=True, slots=True)
class Input(Op):
    """A tensor or scalar that the caller passes.

    Layout   as declared
    Raises   ShapeError  it is cut by a dim that is not there
    """

    type: TensorType

    def infer(self, *inputs: Any, **_: Any) -> TensorType:
        """Return the declared type."""
        if isinstance(self.type.layout, Sliced):
            check_cut("a tensor", self.type, self.type.layout.cut)
        return self.type

    def reference(self, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Refuse: the caller passes it."""
        raise InternalError("an input has no value of its own")

    def work(self, ranks: int, *inputs: Any) -> Work:
        """Return no work."""
        return Work()

    def lower(self, tile: Emitter, *inputs: Any) -> Register | Constant:
        """Refuse: it is in memory."""
        raise InternalError("an input is in memory")

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return the declaration."""
        return f"input {self.type}", 100


@dataclass(frozen=True, slots=True)
class Literal(Op):
    """A Python number in a program: a scalar that never changes.

    Dtype    f64 for a float, i64 for an int
    Raises   DtypeError  an int that needs more than 64 bits
    """

    value: float | int

    def infer(self, *inputs: Any, **_: Any) -> TensorType:
        """Return the scalar type of the number."""
        if not isinstance(self.value, int):
            return scalar_type(f64)
        if not -(2**63) <= self.value < 2**63:
            raise DtypeError(
                "an integer literal has 64 bits",
                got=self.value,
                need="-2**63 to 2**63 - 1",
                fix="write a float",
            )
        return scalar_type(i64)

    def reference(self, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Return the number; scalars are the same on every rank."""
        return (self.value,)

    def work(self, ranks: int, *inputs: Any) -> Work:
        """Return no work."""
        return Work()

    def lower(self, tile: Emitter, *inputs: Any) -> Register | Constant:
        """Refuse: scalars are evaluated once per call, not per element."""
        raise InternalError("a literal is a constant of the plan")

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return the number."""
        text = repr(self.value)
        if text.lstrip("-") in ("inf", "nan"):
            return f"float('{text}')", 100
        return text, 13 if text.startswith("-") else 100

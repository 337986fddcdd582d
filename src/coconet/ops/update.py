"""Update: write a new value into an input, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError, LayoutError, ShapeError
from coconet.ir import TensorType, Work
from coconet.ops.op import (
    Emitter,
    Op,
    Ranked,
    call_text,
    one_group,
    pointwise_work,
)

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["Update", "update"]


@dataclass(frozen=True, slots=True)
class Update(Op):
    """Give an input tensor a new value that the caller sees after the call.

    The result is the new value; the input's own name keeps meaning the old one.

    Layout   both the same
    Shape    both the same
    Raises   LayoutError, ShapeError, DtypeError, GroupError
    Source   CoCoNet, ASPLOS'22 (Update)
    """

    def infer(self, target: TensorType, x: TensorType, **_: Any) -> TensorType:
        """Return the target's type."""
        if target.is_scalar or x.is_scalar:
            raise LayoutError(
                "update writes a tensor into a tensor",
                got=f"{target} and {x}",
                need="two tensors",
                fix="update(t, 0 * t + scalar)",
            )
        one_group((target, x))
        if target.dtype != x.dtype:
            raise DtypeError(
                "update keeps the tensor's dtype",
                got=x,
                need=target.dtype,
                fix=f"cast(x, {target.dtype})",
            )
        if target.shape != x.shape:
            raise ShapeError(
                "update keeps the tensor's shape",
                got=x,
                need=target,
                fix="update(t, 0 * t + x) if x broadcasts",
            )
        if target.layout != x.layout:
            raise LayoutError(
                "update keeps the tensor's layout",
                got=x,
                need=target,
                fix="all_reduce(x), or all_gather(x)",
            )
        return target

    def reference(self, target: Ranked, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the new value."""
        return x.arrays

    def work(self, ranks: int, target: TensorType, x: TensorType) -> Work:
        """Count the bytes read and written."""
        copied = pointwise_work(ranks, target, x)
        return Work(memory_bytes=copied.memory_bytes)

    def lower(self, tile: Emitter, target: TensorType, x: TensorType) -> Any:
        """Read the new value; that its store goes to the target is the lowering's."""
        result: Register | Constant = tile.operand(1, x.dtype)
        return result

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("update", *(text for text, _ in inputs))


def update(target: Any, x: Any) -> Any:
    """Give an input tensor a new value, in place.  See Update."""
    return Update().of(target, x)

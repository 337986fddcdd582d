"""Where: choose between two values, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError
from coconet.ir import TensorType, Work, bool_
from coconet.ops.elementwise import aligned_parts
from coconet.ops.join import (
    broadcast_shapes,
    check_scalars,
    join_dtypes,
    join_layouts,
)
from coconet.ops.op import (
    Emitter,
    Op,
    Ranked,
    call_text,
    one_group,
    pointwise_work,
)

if TYPE_CHECKING:
    from coconet.plan import Register

__all__ = ["Where", "where"]


@dataclass(frozen=True, slots=True)
class Where(Op):
    """Take a's element where the condition holds, else b's.

    Layout   as other element-wise ops
    Dtype    bool, and one for a and b; at most one of a, b is a scalar
    Raises   ShapeError, DtypeError, LayoutError, GroupError
    """

    def infer(self, condition: TensorType, *branches: TensorType) -> TensorType:
        """Return the branches' dtype in the joined shape and layout."""
        if condition.dtype is not bool_:
            raise DtypeError(
                "where chooses by a bool",
                got=condition,
                need="bool",
                fix="compare: x > 0, or not_equal(x, 0)",
            )
        tensors = tuple(t for t in branches if not t.is_scalar)
        if not tensors:
            raise DtypeError(
                "where needs a tensor to take its dtype from",
                got="two scalars",
                need="at least one tensor branch",
                fix="0 * x + scalar",
            )
        dtype = join_dtypes("where", tensors)
        check_scalars("where", dtype, branches)
        everything = (condition, *tensors)
        shape = broadcast_shapes("where", everything)
        layout = join_layouts("where", everything, shape)
        return TensorType(dtype, shape, layout, one_group(everything))

    def reference(self, *inputs: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return numpy's where on each rank's part."""
        import numpy as np

        result = self.infer(*(x.type for x in inputs))
        parts = aligned_parts(inputs, result, result.dtype)
        chosen: list[Any] = [np.where(*operands) for operands in parts]
        return tuple(chosen)

    def work(self, ranks: int, *inputs: TensorType) -> Work:
        """Count one operation per element, each operand read, the result written."""
        return pointwise_work(ranks, self.infer(*inputs), *inputs)

    def lower(self, tile: Emitter, *inputs: TensorType) -> Register:
        """Select by the condition."""
        dtype = self.infer(*inputs).dtype
        condition = tile.operand(0, bool_)
        return tile.apply(
            "select", condition, *(tile.operand(i, dtype) for i in (1, 2))
        )

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("where", *(text for text, _ in inputs))


def where(condition: Any, a: Any, b: Any) -> Any:
    """Take a's element where the condition holds, else b's.  See Where."""
    return Where().of(condition, a, b)

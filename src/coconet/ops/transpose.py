"""Transpose: the same elements with the dims in another order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coconet.errors import LayoutError, ShapeError
from coconet.ir import Sliced, TensorType, Work
from coconet.ops.op import Emitter, Op, Ranked, call_text, pointwise_work

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["Transpose", "transpose"]


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """Put the dims in another order: dim i of the result is dim `order[i]` of x.

    Layout   unchanged; Sliced(d) follows its dim
    Raises   ShapeError   the order is not one of the dims
             LayoutError  the input is cut by FLAT or ROWS
    """

    order: tuple[int, ...]

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the type with its dims in the new order."""
        if sorted(self.order) != list(range(len(x.shape))):
            raise ShapeError(
                "transpose needs every dim once",
                got=f"order {list(self.order)} of {x}",
                need=f"{list(range(len(x.shape)))} in some order",
            )
        layout = x.layout
        if isinstance(layout, Sliced):
            if not isinstance(layout.cut, int):
                raise LayoutError(
                    "transpose moves elements between pieces of a flat cut",
                    got=x,
                    need="Replicated, Local or Sliced by a dim",
                    fix="all_gather(x) first",
                )
            layout = Sliced(self.order.index(layout.cut))
        shape = tuple(x.shape[dim] for dim in self.order)
        return replace(x, shape=shape, layout=layout)

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return each rank's part, transposed."""
        return tuple(array.transpose(self.order).copy() for array in x.arrays)

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count each element read and written once."""
        return replace(pointwise_work(ranks, x, x), flops=0)

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Read the element where it lies."""
        return tile.view(0, self.order, (0,) * len(x.shape))

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("transpose", inputs[0][0], repr(self.order))


def transpose(x: Any, order: tuple[int, ...]) -> Any:
    """Put the dims of a tensor in another order, as numpy does.  See Transpose."""
    dims = tuple(order)
    if any(type(dim) is not int for dim in dims):
        raise TypeError(f"an order is made of ints, got {order!r}")
    return Transpose(tuple(d + len(dims) if d < 0 else d for d in dims)).of(x)

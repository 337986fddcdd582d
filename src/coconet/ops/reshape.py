"""Reshape: the same elements in row-major order, in another shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from coconet.errors import LayoutError, ShapeError
from coconet.ir import (
    FLAT,
    ROWS,
    Dim,
    Extent,
    Shape,
    Sliced,
    TensorType,
    Work,
    bind_shape,
)
from coconet.ops.op import Emitter, Op, Ranked, call_text, pointwise_work

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["Reshape", "reshape"]


@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """Give a tensor another shape of as many elements, in row-major order.

    Layout   Replicated, Local, FLAT: unchanged; ROWS(k) if the last k dims stay;
             Sliced(d) if the dims up to d stay
    Shape    the same symbols, and numbers of the same product
    Raises   ShapeError   another number of elements
             LayoutError  pieces of the result would be others
    """

    shape: Shape

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the type in the new shape."""
        if _count(x.shape) != _count(self.shape):
            raise ShapeError(
                "reshape changes the number of elements",
                got=f"{x} to {list(self.shape)}",
                need="the same symbols, and numbers of the same product",
            )
        if isinstance(x.layout, Sliced) and not self._keeps_pieces(x):
            raise LayoutError(
                "reshape would give the ranks other elements",
                got=f"{x} to {list(self.shape)}",
                need="FLAT; ROWS(k) and the last k dims; or a dim and those before",
                fix="all_gather(x) first",
            )
        return replace(x, shape=self.shape)

    def _keeps_pieces(self, x: TensorType) -> bool:
        assert isinstance(x.layout, Sliced)
        match x.layout.cut:
            case int(cut):
                return x.shape[: cut + 1] == self.shape[: cut + 1]
            case ROWS(k):
                old, new = x.shape[len(x.shape) - k :], self.shape[-k:] if k else ()
                return old == new
            case cut:
                return cut == FLAT

    def reference(
        self, x: Ranked, *, sizes: Mapping[str, int], **_: Any
    ) -> tuple[Any, ...]:
        """Return each rank's part in the new shape; sizes has the symbols' numbers."""
        layout = x.type.layout
        if isinstance(layout, Sliced) and not isinstance(layout.cut, int):
            return tuple(array.copy() for array in x.arrays)  # stored alike
        shape = bind_shape(self.shape, sizes)
        parts = [array.copy() for array in x.arrays]
        if not isinstance(layout, Sliced):
            return tuple(part.reshape(shape) for part in parts)
        cut = layout.cut
        assert isinstance(cut, int)
        before, after = shape[:cut], shape[cut + 1 :]
        return tuple(p.reshape(*before, p.shape[cut], *after) for p in parts)

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count each element read and written once."""
        return replace(pointwise_work(ranks, x, x), flops=0)

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Read the element of the same number."""
        return tile.same_place(0)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("reshape", inputs[0][0], str(self.shape))


def _count(shape: Shape) -> tuple[Counter[Dim], int]:
    """Return what tells the number of elements: symbols, and a product."""
    symbols = Counter(extent for extent in shape if isinstance(extent, Dim))
    return symbols, prod(extent for extent in shape if isinstance(extent, int))


def reshape(x: Any, shape: Sequence[Extent]) -> Any:
    """Give a tensor another shape of as many elements.  See Reshape."""
    for extent in shape:
        if not isinstance(extent, Dim) and (type(extent) is not int or extent < 0):
            raise ValueError(f"an extent is a count or a dim, got {extent!r}")
    return Reshape(tuple(shape)).of(x)

"""Concat: tensors one after the other along one dim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coconet.errors import InternalError, LayoutError, ShapeError
from coconet.ir import Extent, Sliced, TensorType, Work
from coconet.ops.join import join_dtypes
from coconet.ops.op import Emitter, Op, Ranked, call_text, one_group, pointwise_work

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["Concat", "concat"]


@dataclass(frozen=True, slots=True)
class Concat(Op):
    """Put tensors one after the other along a dim.

    Layout   one for all: Replicated, Local, or Sliced by another dim
    Shape    equal but for the dim, whose extents are numbers
    Dtype    one for all
    Raises   ShapeError, DtypeError, LayoutError, GroupError
    """

    dim: int

    def infer(self, *inputs: TensorType, **_: Any) -> TensorType:
        """Return the type of all together."""
        first = inputs[0]
        join_dtypes("concat", inputs)
        one_group(inputs)
        total = 0
        for x in inputs:
            extent = x.shape[self.dim] if self.dim < len(x.shape) else None
            if not isinstance(extent, int) or self._rest(x) != self._rest(first):
                raise ShapeError(
                    f"concat got shapes that do not fit along dim {self.dim}",
                    got=" and ".join(map(str, inputs)),
                    need="equal extents in the other dims, and a number in this one",
                )
            total += extent
        cut = first.layout.cut if isinstance(first.layout, Sliced) else None
        is_cut_here = cut is not None and (not isinstance(cut, int) or cut == self.dim)
        if is_cut_here or any(x.layout != first.layout for x in inputs):
            raise LayoutError(
                "concat needs whole dims, and one layout",
                got=" and ".join(map(str, inputs)),
                need="all Replicated, all Local, or all Sliced by one other dim",
                fix="all_gather(x) first",
            )
        before, after = first.shape[: self.dim], first.shape[self.dim + 1 :]
        return replace(first, shape=(*before, total, *after))

    def _rest(self, x: TensorType) -> tuple[Extent, ...]:
        return (*x.shape[: self.dim], *x.shape[self.dim + 1 :])

    def reference(self, *inputs: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the parts of each rank together."""
        import numpy as np

        parts = zip(*(x.arrays for x in inputs), strict=True)
        return tuple(np.concatenate(arrays, axis=self.dim) for arrays in parts)

    def work(self, ranks: int, *inputs: TensorType) -> Work:
        """Count each element read and written once."""
        whole = self.infer(*inputs)
        return replace(pointwise_work(ranks, whole, whole), flops=0)

    def starts(self, *inputs: TensorType) -> list[int]:
        """Return where each input begins in the dim."""
        starts = [0]
        for x in inputs:
            extent = x.shape[self.dim]
            assert isinstance(extent, int)  # infer refused symbols
            starts.append(starts[-1] + extent)
        return starts[:-1]

    def lower(self, tile: Emitter, *inputs: TensorType) -> Register | Constant:
        """Refuse: lower/ gives each input a loop of its own."""
        raise InternalError("concat is one loop per input")

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        tensors = ", ".join(text for text, _ in inputs)
        return call_text("concat", f"({tensors},)", str(self.dim))


def concat(tensors: Any, dim: int = 0) -> Any:
    """Put tensors one after the other along a dim, from 0.  See Concat."""
    if type(dim) is not int or dim < 0:
        raise ValueError(f"concat takes a dim >= 0, got {dim!r}")
    if not (parts := tuple(tensors)):
        raise ValueError("concat takes at least one tensor")
    return Concat(dim).of(*parts)

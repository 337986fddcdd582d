"""Index: a part of a tensor along one dim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coconet.errors import LayoutError, ShapeError
from coconet.ir import Sliced, TensorType, Work
from coconet.ops.op import Emitter, Op, Ranked, call_text, pointwise_work

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["Index", "index"]


@dataclass(frozen=True, slots=True)
class Index(Op):
    """Keep positions [start, start + length) of a dim; length None drops the dim.

    Layout   unchanged; a cut dim keeps its elements, so it must be another one
    Shape    the dim's extent is a number that holds the positions
    Raises   ShapeError   the dim or a position is not there, or the extent is a symbol
             LayoutError  the dim is cut, or the input is cut by FLAT or ROWS
    """

    dim: int
    start: int
    length: int | None = None

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the part's type."""
        rank = len(x.shape)
        if not 0 <= self.dim < rank:
            raise ShapeError(
                "index names a dim that is not there",
                got=f"dim {self.dim} of {x}",
                need=f"0 to {rank - 1}",
            )
        extent = x.shape[self.dim]
        stop = self.start + (1 if self.length is None else self.length)
        if not isinstance(extent, int) or not 0 <= self.start <= stop <= extent:
            raise ShapeError(
                "index reaches beyond the dim, or its extent is not known",
                got=f"[{self.start}, {stop}) of {extent}",
                need="positions inside an extent that is a number",
                fix=f"declare dim {self.dim} with a number",
            )
        return replace(x, shape=self._left(x), layout=self._layout(x))

    def _left(self, x: TensorType) -> tuple[Any, ...]:
        middle = () if self.length is None else (self.length,)
        return (*x.shape[: self.dim], *middle, *x.shape[self.dim + 1 :])

    def _layout(self, x: TensorType) -> Any:
        if not isinstance(x.layout, Sliced):
            return x.layout
        cut = x.layout.cut
        if not isinstance(cut, int) or cut == self.dim:
            raise LayoutError(
                "index needs whole dims",
                got=f"{x} at dim {self.dim}",
                need="a dim that is not cut",
                fix="all_gather(x) first",
            )
        is_behind = self.length is None and cut > self.dim
        return Sliced(cut - 1 if is_behind else cut)

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the part of each rank's part."""
        stop = self.start + (1 if self.length is None else self.length)
        where = (slice(None),) * self.dim + (slice(self.start, stop),)
        parts = [array[where] for array in x.arrays]
        if self.length is None:
            parts = [part.squeeze(self.dim) for part in parts]
        return tuple(part.copy() for part in parts)

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count each element of the part read and written once."""
        part = self.infer(x)
        return replace(pointwise_work(ranks, part, part), flops=0)

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Read the element where it lies."""
        rank = len(x.shape)
        axes = [d for d in range(rank) if self.length is not None or d != self.dim]
        start = tuple(self.start if d == self.dim else 0 for d in range(rank))
        return tile.view(0, tuple(axes), start)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        length = "" if self.length is None else str(self.length)
        return call_text("index", inputs[0][0], str(self.dim), str(self.start), length)


def index(x: Any, dim: int, start: int, length: int | None = None) -> Any:
    """Keep `length` positions of a dim from `start`, or drop it at `start`.  See Index.

    Positions count from 0.
    """
    for number in (dim, start, 0 if length is None else length):
        if type(number) is not int or number < 0:
            raise ValueError(f"index takes ints >= 0, got {number!r}")
    return Index(dim, start, length).of(x)

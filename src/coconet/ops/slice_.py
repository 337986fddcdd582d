"""Slice: each rank keeps its piece of what every rank has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.errors import LayoutError, ShapeError
from coconet.ir import FLAT, Cut, Replicated, Sliced, TensorType, Work
from coconet.ops.op import Emitter, Op, Ranked, call_text
from coconet.ops.pieces import take_piece

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["Slice", "check_cut", "slice_"]


def check_cut(name: str, x: TensorType, cut: Cut) -> None:
    """Raise ShapeError if the cut names dims that the tensor does not have."""
    needed = cut + 1 if isinstance(cut, int) else getattr(cut, "k", 0)
    if len(x.shape) < needed:
        raise ShapeError(
            f"{name} cuts a dim that is not there",
            got=f"{x} by {cut!r}",
            need=f"at least {needed} dims",
            fix="cut by FLAT, or by a dim that is there",
        )


@dataclass(frozen=True, slots=True)
class Slice(Op):
    """Rank i keeps piece i; nothing is sent.

    Layout   Replicated -> Sliced(cut)
    Shape    unchanged, as seen from the program
    Raises   LayoutError  the input is not Replicated
             ShapeError   the cut names a dim that is not there
    Source   CoCoNet, ASPLOS'22 (slices that reorder introduces)
    """

    cut: Cut = FLAT

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the sliced type."""
        if not isinstance(x.layout, Replicated) or x.is_scalar:
            raise LayoutError(
                "slice_ takes a piece of what every rank has",
                got=x,
                need="Replicated",
                fix="reduce_scatter(x, op, cut) if x is Local",
            )
        check_cut("slice_", x, self.cut)
        return x.with_layout(Sliced(self.cut))

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return each rank's piece."""
        return tuple(
            take_piece(array, self.cut, position, x.ranks)
            for position, array in enumerate(x.arrays)
        )

    def work(self, ranks: int, x: TensorType) -> Work:
        """Return no work: a slice is a way to read."""
        return Work()

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Read the element."""
        return tile.operand(0, x.dtype)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("slice_", inputs[0][0], repr(self.cut))


def slice_(x: Any, cut: Cut = FLAT) -> Any:
    """Keep this rank's piece of a Replicated tensor.  See Slice."""
    return Slice(cut).of(x)

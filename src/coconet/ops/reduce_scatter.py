"""ReduceScatter: combine over the group; each rank gets its piece of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.ir import FLAT, Cut, Sliced, TensorType, Work
from coconet.ops.combine import check_combine, combine_arrays, lower_combine
from coconet.ops.op import Emitter, Op, Ranked, call_text, type_nbytes
from coconet.ops.pieces import take_piece
from coconet.ops.slice_ import check_cut

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["ReduceScatter", "reduce_scatter"]


@dataclass(frozen=True, slots=True)
class ReduceScatter(Op):
    """Combine different values of the ranks; rank i keeps piece i.

    Layout   Local -> Sliced(cut)
    Shape    unchanged, as seen from the program; pieces may be uneven and empty
    Dtype    as all_reduce
    Wire     (p - 1) / p * nbytes read from peers by each rank
    Raises   LayoutError  the input is not Local
             DtypeError   bool, or mean of integers
             ShapeError   the cut names a dim that is not there
    Source   CoCoNet, ASPLOS'22 (layouts and collectives)
    """

    op: str = "sum"
    cut: Cut = FLAT

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the sliced type."""
        check_combine("reduce_scatter", self.op, x)
        check_cut("reduce_scatter", x, self.cut)
        return x.with_layout(Sliced(self.cut))

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the pieces of the fold in rank order."""
        whole = combine_arrays(self.op, x.arrays)
        return tuple(take_piece(whole, self.cut, i, x.ranks) for i in range(x.ranks))

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count a piece read from every rank."""
        share = (ranks - 1) / ranks * type_nbytes(x)
        return Work(wire_bytes=share, memory_bytes=type_nbytes(x), steps=1)

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Fold the ranks' elements."""
        return lower_combine(tile, self.op, x)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("reduce_scatter", inputs[0][0], repr(self.op), repr(self.cut))


def reduce_scatter(x: Any, op: str = "sum", cut: Cut = FLAT) -> Any:
    """Combine over the group; rank i keeps piece i.  See ReduceScatter."""
    return ReduceScatter(op, cut).of(x)

"""AllReduce: combine over the group; every rank gets the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coconet.ir import Replicated, TensorType, Work
from coconet.ops.combine import check_combine, combine_arrays, lower_combine
from coconet.ops.op import Emitter, Op, Ranked, call_text, type_nbytes

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["AllReduce", "all_reduce"]


@dataclass(frozen=True, slots=True)
class AllReduce(Op):
    """Combine different values of the ranks into one value on all.

    Layout   Local -> Replicated
    Dtype    unchanged; 16-bit floats are summed in f32; mean divides once, at the end
    Wire     2 (p - 1) / p * nbytes read from or written to peers by each rank
    Raises   LayoutError  the input is not Local
             DtypeError   bool, or mean of integers
             ValueError   op is not sum, mean, prod, max or min
    Source   CoCoNet, ASPLOS'22 (layouts and collectives)
    """

    op: str = "sum"

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the Replicated type."""
        check_combine("all_reduce", self.op, x)
        return x.with_layout(Replicated())

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the fold in rank order, the same for all."""
        return (combine_arrays(self.op, x.arrays),) * x.ranks

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count a reduce-scatter and an all-gather."""
        share = (ranks - 1) / ranks * type_nbytes(x)
        return Work(wire_bytes=2 * share, memory_bytes=2 * type_nbytes(x), steps=2)

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Fold the ranks' elements."""
        return lower_combine(tile, self.op, x)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call; sum is the default."""
        return call_text("all_reduce", inputs[0][0], _op_text(self.op))


def _op_text(op: str) -> str:
    return "" if op == "sum" else repr(op)


def all_reduce(x: Any, op: str = "sum") -> Any:
    """Combine over the group; every rank gets the result.  See AllReduce."""
    return AllReduce(op).of(x)

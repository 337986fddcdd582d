"""AllGather: every rank gets all pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coconet.errors import LayoutError
from coconet.ir import Replicated, Sliced, TensorType, Work
from coconet.ops.op import Emitter, Op, Ranked, call_text, concrete_shape, type_nbytes
from coconet.ops.pieces import join_pieces

if TYPE_CHECKING:
    from coconet.plan import Constant, Register

__all__ = ["AllGather", "all_gather"]


@dataclass(frozen=True, slots=True)
class AllGather(Op):
    """Put the pieces together on every rank.

    Layout   Sliced(cut) -> Replicated
    Shape    unchanged, as seen from the program
    Wire     (p - 1) / p * nbytes written to peers by each rank
    Raises   LayoutError  the input is not Sliced
    Source   CoCoNet, ASPLOS'22 (layouts and collectives)
    """

    spreads: ClassVar[bool] = True

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the Replicated type."""
        if not isinstance(x.layout, Sliced):
            raise LayoutError(
                "all_gather joins pieces",
                got=x,
                need="Sliced",
                fix="all_reduce(x) if x is Local; x itself if it is Replicated",
            )
        return x.with_layout(Replicated())

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the joined pieces, the same for all."""
        layout = x.type.layout
        assert isinstance(layout, Sliced)  # infer refused anything else
        whole = join_pieces(x.arrays, concrete_shape(x.type), layout.cut)
        return (whole,) * x.ranks

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count a piece written to every rank."""
        share = (ranks - 1) / ranks * type_nbytes(x)
        return Work(wire_bytes=share, memory_bytes=type_nbytes(x), steps=1)

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Read the element; that its store goes to every rank is `spreads`."""
        return tile.operand(0, x.dtype)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("all_gather", inputs[0][0])


def all_gather(x: Any) -> Any:
    """Put the pieces together on every rank.  See AllGather."""
    return AllGather().of(x)

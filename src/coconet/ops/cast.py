"""Cast: the same numbers in another dtype."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError
from coconet.ir import DTYPES, DType, TensorType, Work, bool_
from coconet.ops.op import (
    Emitter,
    Op,
    Ranked,
    call_text,
    pointwise_work,
)

if TYPE_CHECKING:
    from coconet.plan import Register

__all__ = ["Cast", "cast"]


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """Round each element to another dtype: to nearest even, integers wrap.

    To f16 and bf16 every dtype goes through f32, as in torch.

    Layout   unchanged
    Dtype    any real one -> `dtype`; a float to an integer is refused
    Raises   DtypeError  the input is a scalar, or a float becomes an integer
    """

    dtype: DType

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the type with the new dtype."""
        if x.is_scalar:
            raise DtypeError(
                "a scalar takes the dtype of the tensor it meets",
                got="cast of a scalar",
                need="a tensor",
                fix="use the scalar itself",
            )
        if x.dtype.is_float and not self.dtype.is_float:
            raise DtypeError(
                "a cast from real numbers to integers has no portable meaning",
                got=f"{x.dtype} to {self.dtype}",
                need="a float dtype",
                fix="compare, and cast the bool",
            )
        if self.dtype is bool_ and x.dtype is not bool_:
            raise DtypeError(
                "a cast to bool hides a comparison",
                got=x.dtype,
                need="bool",
                fix="not_equal(x, 0)",
            )
        return replace(x, dtype=self.dtype)

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return each rank's array in the other dtype."""
        from coconet.plan.scalar import round_array

        return tuple(round_array(array, self.dtype.numpy) for array in x.arrays)

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count the elements read and written."""
        return pointwise_work(ranks, self.infer(x), x)

    def lower(self, tile: Emitter, x: TensorType) -> Register:
        """Apply the cast primitive."""
        return tile.apply("cast", tile.operand(0, x.dtype), dtype=self.dtype)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        return call_text("cast", inputs[0][0], str(self.dtype))


def cast(x: Any, dtype: DType) -> Any:
    """Round each element to another dtype.  See Cast.

    Raises TypeError for a dtype that is not coconet's, and if x is no tensor.
    """
    if dtype not in DTYPES.values():
        raise TypeError(f"cast takes one of coconet's dtypes, as cc.f32, got {dtype!r}")
    return Cast(dtype).of(x)

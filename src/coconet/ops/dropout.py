"""Dropout: zeros in random places, the same ones in every layout and schedule."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from numbers import Real
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError
from coconet.ir import Sliced, TensorType, Work, i64, u32
from coconet.ops.elementwise import wide_dtype
from coconet.ops.op import Emitter, Op, Operand, Ranked, call_text, pointwise_work
from coconet.ops.pieces import take_piece
from coconet.options import checked_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coconet.plan import Constant, Register

    Array = NDArray[Any]

__all__ = ["Dropout", "dropout"]

_WORDS = 1 << 32
_TURNS = 10


@dataclass(frozen=True, slots=True)
class Dropout(Op):
    """Make elements 0 with probability p, and divide the others by 1 - p.

    An element is dropped if word 0 of Philox-4x32-10 is less than p * 2**32.  Its key
    is the seed; its counter the element's row-major number in the global shape, in 64
    bits, then the ordinal, then 0.  So what is dropped depends on nothing else: neither
    on the layout nor on the number of ranks, the schedule and the backend.

    Layout   unchanged; on a Local tensor all ranks drop the same elements
    Dtype    any float, computed in f32 if it has 16 bits; the seed an i64 scalar
    Raises   DtypeError
    Source   Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC'11
    """

    p: float
    ordinal: int = 0

    def infer(self, x: TensorType, seed: TensorType, **_: Any) -> TensorType:
        """Return the tensor's type."""
        if x.is_scalar or not x.dtype.is_float:
            raise DtypeError(
                "dropout is for tensors of real numbers",
                got=x,
                need="a float tensor",
                fix="cast(x, f32)",
            )
        if seed.dtype is not i64 or not seed.is_scalar:
            raise DtypeError(
                "dropout takes its seed as an integer scalar",
                got=seed,
                need="scalar(name, i64)",
            )
        return x

    def reference(self, x: Ranked, seed: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return each rank's part, some of its elements 0."""
        import numpy as np

        numbers = np.arange(prod(x.shape), dtype=np.int64).reshape(x.shape)
        is_dropped = self.dropped(numbers, seed.arrays[0])
        layout, dtype = x.type.layout, x.type.dtype
        wide = wide_dtype(dtype).numpy

        def part(position: int, array: Array) -> Array:
            mine = is_dropped
            if isinstance(layout, Sliced):
                mine = take_piece(mine, layout.cut, position, x.ranks)
            with np.errstate(all="ignore"):
                scaled = array.astype(wide) * np.asarray(self.scale, wide)
                kept: Array = np.where(mine, np.asarray(0, wide), scaled)
                return kept.astype(dtype.numpy)

        return tuple(part(*each) for each in enumerate(x.arrays))

    def dropped(self, numbers: Array, seed: int) -> Array:
        """Return whether elements of these numbers are dropped."""
        import numpy as np

        from coconet.plan.scalar import ArrayEmitter

        emitter: Any = ArrayEmitter()
        with np.errstate(all="ignore"):
            word: Any = random_word(emitter, numbers, np.int64(seed), self.ordinal)
            return word < self._least

    def work(self, ranks: int, x: TensorType, seed: TensorType) -> Work:
        """Count the elements read and written."""
        return pointwise_work(ranks, x, x)

    def lower(
        self, tile: Emitter, x: TensorType, seed: TensorType
    ) -> Register | Constant:
        """Choose by the random number of the element."""
        wide = wide_dtype(x.dtype)
        value = tile.operand(0, x.dtype)
        if self._least == _WORDS:
            return tile.literal(0.0, x.dtype)
        word = random_word(tile, tile.position(), tile.operand(1, i64), self.ordinal)
        if wide is not x.dtype:
            value = tile.apply("cast", value, dtype=wide)
        scaled = tile.apply("mul", value, tile.literal(self.scale, wide))
        is_dropped = tile.apply("lt", word, tile.literal(self._least, u32))
        kept = tile.apply("select", is_dropped, tile.literal(0.0, wide), scaled)
        return kept if wide is x.dtype else tile.apply("cast", kept, dtype=x.dtype)

    @property
    def _least(self) -> int:
        """The least word that is kept."""
        return int(self.p * _WORDS)

    @property
    def scale(self) -> float:
        """What elements are multiplied by that are not dropped."""
        return 0.0 if self.p == 1 else 1 / (1 - self.p)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        (x, _), (seed, _) = inputs
        return call_text("dropout", x, repr(self.p), seed, str(self.ordinal))


def random_word(
    tile: Emitter, number: Any, seed: Any, ordinal: int
) -> Register | Constant:
    """Return word 0 of Philox-4x32-10, in u32, for an element's number and a seed."""

    def halves(x: Any) -> list[Any]:
        high = tile.apply("shr", x, tile.literal(32, i64))
        return [tile.apply("cast", half, dtype=u32) for half in (x, high)]

    key = halves(seed)
    a, b, c, d = (*halves(number), tile.literal(ordinal, u32), tile.literal(0, u32))
    factors = [tile.literal(factor, u32) for factor in (0xD2511F53, 0xCD9E8D57)]
    steps = [tile.literal(step, u32) for step in (0x9E3779B9, 0xBB67AE85)]
    for turn in range(_TURNS):
        if turn:
            key = [tile.apply("add", *pair) for pair in zip(key, steps, strict=True)]
        pairs = list(zip(factors, (a, c), strict=True))
        high, low = (
            [tile.apply(half, *pair) for pair in pairs] for half in ("mul_high", "mul")
        )
        a, c = (
            tile.apply("bit_xor", tile.apply("bit_xor", x, y), k)
            for x, y, k in ((high[1], b, key[0]), (high[0], d, key[1]))
        )
        b, d = low[1], low[0]
    return a


def dropout(x: Any, p: float | int, seed: Any, ordinal: int | None = None) -> Any:
    """Make elements 0 with probability p, and divide the others by 1 - p.  See Dropout.

    seed     an i64 scalar of the program, passed at every call
    ordinal  tells dropouts of one seed apart: they are numbered as they are written
    Raises   TypeError, ValueError  p is no number from 0 to 1, the ordinal no whole
                                    one, or the seed is made of no scalar input
    """
    if isinstance(p, bool) or not isinstance(p, Real):
        raise TypeError(f"dropout's p is a number, got {p!r}")
    if not 0 <= p <= 1:
        raise ValueError(f"dropout's p is from 0 to 1, got {p!r}")
    if not isinstance(seed, Operand):
        raise TypeError(f"dropout's seed is a scalar of the program, got {seed!r}")
    if ordinal is not None and checked_count("ordinal", ordinal, least=0) >= _WORDS:
        raise ValueError(f"an ordinal has 32 bits, got {ordinal}")
    return Dropout(float(p), seed.draw(ordinal)).of(x, seed)

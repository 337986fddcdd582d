"""Are two results the same bits?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Difference", "first_difference"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two results differ first: the flat index in one rank's array.

    count is how many elements of that array differ; got and need are the two values.
    """

    name: str
    rank: int
    index: int
    got: object
    need: object
    count: int

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{self.name} on rank {self.rank}: element {self.index} is {self.got!r}, "
            f"should be {self.need!r} ({self.count} elements differ)"
        )


def first_difference(
    got: Mapping[str, Sequence[Array]], need: Mapping[str, Sequence[Array]]
) -> Difference | None:
    """Return the first place where two results have different bits, or None.

    Equal means the same bit pattern, or both NaN.
    """
    for name, arrays in need.items():
        for rank, (a, b) in enumerate(zip(got[name], arrays, strict=True)):
            found = _compare(name, rank, np.asarray(a), np.asarray(b))
            if found is not None:
                return found
    return None


def _compare(name: str, rank: int, got: Array, need: Array) -> Difference | None:
    if got.dtype != need.dtype or got.shape != need.shape:
        kinds = f"{got.dtype}{got.shape}", f"{need.dtype}{need.shape}"
        return Difference(name, rank, 0, *kinds, count=need.size)
    a, b = got.reshape(-1), need.reshape(-1)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    differs = a.view(bits) != b.view(bits)
    if got.dtype.kind not in "iub":
        differs &= ~((a != a) & (b != b))
    where = np.flatnonzero(differs)
    if not where.size:
        return None
    index = int(where[0])
    return Difference(name, rank, index, a[index], b[index], count=where.size)

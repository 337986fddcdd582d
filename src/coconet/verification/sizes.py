"""Sizes that show mistakes: empty, tiny, around borders, prime."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from coconet.ir import Dim

__all__ = ["sizes_for"]

_ONE_DIM = (0, 1, 63, 64, 65, 4099, 10007)
_SEVERAL = (1, 2, 5, 7)
_MOST = 24


def sizes_for(dims: Sequence[Dim], ranks: int) -> list[dict[str, int]]:
    """Return assignments of numbers to symbolic dims.

    One dim: 0, 1, p - 1, 63, 64, 65, 4099, 10007.  Several: small mixed ones, each dim
    empty once, and one larger case of primes.
    """
    names = [dim.name for dim in dims]
    if not names:
        return [{}]
    if len(names) == 1:
        return [{names[0]: size} for size in sorted({*_ONE_DIM, ranks - 1})]
    combinations: list[tuple[int, ...]] = list(product(_SEVERAL, repeat=len(names)))
    step = max(1, len(combinations) // _MOST)
    chosen: list[tuple[int, ...]] = combinations[::step]
    cases = [dict(zip(names, case, strict=True)) for case in chosen]
    cases += [{n: 0 if n == empty else 3 for n in names} for empty in names]
    primes = (11, 13, 17, 19, 23)
    large = {n: primes[i % len(primes)] for i, n in enumerate(names)}
    return [*cases, large]

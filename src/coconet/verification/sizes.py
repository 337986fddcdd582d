"""Sizes that show mistakes: empty, tiny, around borders, prime."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from coconet.ir import Dim
from coconet.options import checked_count

__all__ = ["checked_sizes", "sizes_for"]

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


def checked_sizes(dims: Sequence[Dim], sizes: Sequence[Any]) -> list[dict[str, int]]:
    """Return assignments of numbers to symbolic dims that a user gave.

    Raises TypeError, ValueError.
    """
    if not isinstance(sizes, list | tuple):
        raise TypeError(f"sizes is a list of dicts, as [{{'N': 8}}], got {sizes!r}")
    if not sizes:
        raise ValueError("sizes is a list of at least one dict, got none")
    return [_checked(dims, given) for given in sizes]


def _checked(dims: Sequence[Dim], given: Any) -> dict[str, int]:
    names = [dim.name for dim in dims]
    if type(given) is not dict or given.keys() != {*names}:
        raise ValueError(f"sizes has numbers for {', '.join(names)}, got {given!r}")
    return {name: checked_count(name, given[name], least=0) for name in names}

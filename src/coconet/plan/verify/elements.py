"""Sets of elements, as the bits of one integer: exact, and quick to meet and join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from coconet.ir import Domain

__all__ = ["boxes", "elements_text", "piece_elements", "repeat", "span"]


def span(first: int, count: int) -> int:
    """Return `count` consecutive elements."""
    return ((1 << count) - 1) << first


def repeat(elements: int, count: int, stride: int) -> int:
    """Return the union of `count` copies, each `stride` further than the one before."""
    if count == 0:
        return 0
    made = 1
    while made < count:
        more = min(made, count - made)
        elements |= elements << more * stride
        made += more
    return elements


def piece_elements(domain: Domain, position: int, ranks: int) -> int:
    """Return the row-major indices of a piece's elements in the whole tensor."""
    lo, hi = domain.piece(position, ranks)
    rows = span(lo * domain.inner, (hi - lo) * domain.inner)
    return repeat(rows, domain.outer, domain.extent * domain.inner)


def boxes(shape: Sequence[int], lo: int, hi: int) -> Iterator[tuple[range, ...]]:
    """Yield the row-major indices lo to hi of a shape, as products of ranges."""
    if lo >= hi:
        return
    if not shape:
        yield ()
        return
    inner = prod(shape[1:])
    first, end = -(-lo // inner), hi // inner  # rows that lie in it whole
    if first > end:
        yield from _in_row(shape, end, lo, hi)
        return
    if lo < first * inner:
        yield from _in_row(shape, first - 1, lo, first * inner)
    if first < end:
        yield (range(first, end), *map(range, shape[1:]))
    if hi > end * inner:
        yield from _in_row(shape, end, end * inner, hi)


def _in_row(
    shape: Sequence[int], row: int, lo: int, hi: int
) -> Iterator[tuple[range, ...]]:
    start = row * prod(shape[1:])
    for box in boxes(shape[1:], lo - start, hi - start):
        yield (range(row, row + 1), *box)


def elements_text(elements: int) -> str:
    """Return how many there are, and the first and the last."""
    count = elements.bit_count()
    first, last = (elements & -elements).bit_length() - 1, elements.bit_length() - 1
    if count == 1:
        return f"element {first}"
    return f"{count} elements from {first} to {last}"

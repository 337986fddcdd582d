"""The extents at which a plan is proved: small, and showing every border."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod

from coconet.ir import FLAT, ROWS, Cut, Extent, Shape, bind_shape
from coconet.plan.instr import Tile
from coconet.plan.plan import Plan
from coconet.plan.tree import LEAF

__all__ = ["Extents", "bind", "instances", "large_extents"]

Extents = Mapping[Extent, int]
"""The numbers that extents are given for the proof."""

LARGE = 256
"""A given extent above this takes the proof too long; it is proved as if symbolic."""

_PIECE, _SHORT = 3 * LEAF, LEAF - 3
"""Elements of a piece by FLAT, from which several subtrees are folded; and how many
fewer the last one has."""


def instances(plan: Plan, chosen: Sequence[Extent]) -> Iterator[Extents]:
    """Yield numbers for these extents.

    First uneven pieces, none of them empty; then extents of 1, most pieces empty.
    """
    yield _uneven(plan, chosen)
    if chosen:
        yield dict.fromkeys(chosen, 1)


def _uneven(plan: Plan, chosen: Sequence[Extent]) -> Extents:
    """Return small extents, large enough for every piece and uneven where they are cut.

    A dim that is cut is one short of even; by FLAT, the last piece is short of others.
    """
    extents = {extent: 3 + number for number, extent in enumerate(chosen)}
    tiles = [step for step in plan.body if isinstance(step, Tile)]
    for shape, cut in {(x.shape, x.cut): None for x in (*plan.buffers, *tiles)}:
        first = next((e for e in _cut_dims(shape, cut) if e in extents), None)
        if first is None:
            continue
        least = (2 + chosen.index(first)) * plan.ranks - 1
        if cut == FLAT:
            others = prod(bind(shape, extents)) // extents[first]
            least = -(-(_PIECE * plan.ranks - _SHORT) // max(others, 1))
        extents[first] = max(extents[first], least)
    return extents


def _cut_dims(shape: Shape, cut: Cut | None) -> Shape:
    """Return the extents whose product is cut."""
    match cut:
        case None:
            return ()
        case int():
            return (shape[cut],)
        case ROWS(k):
            return shape[: len(shape) - k]
        case _:
            return shape


def bind(shape: Shape, extents: Extents) -> tuple[int, ...]:
    """Return a shape in numbers; an int that is not named stands for itself."""
    return bind_shape(tuple(extents.get(e, e) for e in shape), {})


def large_extents(plan: Plan) -> tuple[int, ...]:
    """Return the given extents that are too large for the proof."""
    shapes = chain.from_iterable(buffer.shape for buffer in plan.buffers)
    return tuple(sorted({e for e in shapes if isinstance(e, int) and e > LARGE}))

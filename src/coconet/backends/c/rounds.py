"""C text of what the runtime is told of a tile that can go in rounds."""

from __future__ import annotations

from coconet.backends.c.words import TileWord, borders_word
from coconet.plan import Plan, Tile, peers_store

__all__ = ["rounds_text"]

_ROUNDS = """\
static const cc_staged staged_{number}[] = {{{staged}}};
static const cc_tile rounds_{number} = {{
  tile_{number}, staged_{number}, {count}, {whole}, {borders}, {stream}, {where}}};
"""


def rounds_text(plan: Plan, tile: Tile, number: int) -> str:
    """Return the constants of a tile, the plan's instruction of this number; or ""."""
    if not tile.staged:
        return ""
    names = [buffer.name for buffer in plan.buffers]
    staged = (
        f"{{{names.index(name)}, {plan.buffer(name).dtype.itemsize}, "
        f"{int(peers_store(tile, name))}}}"
        for name in tile.staged
    )
    return _ROUNDS.format(
        number=number,
        staged=", ".join(staged),
        count=len(tile.staged),
        whole=int(tile.cut is None),
        borders=borders_word(tile),
        stream=int(TileWord.STREAM),
        where=tile.where,
    )

"""C text of a tile's reductions: rows as they end, or one tree for each thread."""

from __future__ import annotations

from coconet.backends.c.dialect import c_type
from coconet.backends.c.trees import tree_name
from coconet.backends.c.words import (
    FOLD_BLOCK,
    FOLD_WORDS,
    TileWord,
    folds_whole,
    reductions,
)
from coconet.plan import Fold, Plan, Reduce, Tile

__all__ = [
    "fold_end",
    "fold_feed",
    "fold_fields",
    "fold_head",
    "fold_text",
    "join_text",
]

_HEAD = """\
  {type} fold_{j}[{FOLD_BLOCK}];
  cc_tree_{tree} tree_{j};
  tree_{j}.depth = tree_{j}.filled = 0;
"""

_HEAD_ROWS = """\
  tree_{j}.leaves = 0;
  const int64_t width_{j} = w[{words}];
  int64_t row_of_{j} = width_{j} ? begin / width_{j} : 0, left_{j} = width_{j};
  {type} *const to_{j} = ({type} *)at[{buffer} * size + rank];
"""

_FEED_ROWS = """\
    for (int64_t i = 0, taken; i < n; i += taken) {{
      taken = n - i < left_{j} ? n - i : left_{j};
      cc_feed_{tree}(&tree_{j}, fold_{j} + i, taken);
      if ((left_{j} -= taken)) continue;
      to_{j}[row_of_{j}++] = cc_total_{tree}(&tree_{j});
      left_{j} = width_{j};
    }}
"""

_END_ROWS = """\
  if (!width_{j} && part == 0)
    for (int64_t i = 0; i < w[{words} + 1]; i++) to_{j}[i] = cc_total_{tree}(&tree_{j});
"""

_HEAD_WHOLE = """\
  tree_{j}.leaves = (uint64_t)({first_leaf} + begin / 64);
"""

_FEED_WHOLE = """\
    cc_feed_{tree}(&tree_{j}, fold_{j}, n);
"""

_END_WHOLE = """\
  cc_close_{tree}(&tree_{j});
  ((trees_{number} *)a->scratch)[part].tree_{j} = tree_{j};
"""

_JOIN = """\
static void join_{number}(cc_args *a, trees_{number} *trees) {{
  const int64_t rank = a->world->rank, size = a->world->size;
  for (int32_t part = 1; part < a->threads; part++) {{
{parts}  }}
{totals}}}
"""

_JOIN_PART = """\
    cc_join_{tree}(&trees->tree_{j}, &trees[part].tree_{j});
"""

_STORE_TOTAL = """\
  *({type} *)a->pointers[{buffer} * size + rank] = cc_total_{tree}(&trees->tree_{j});
"""

_STORE_SUBTREES = """\
  memcpy(a->pointers[{buffer} * size + rank], trees->tree_{j}.fold,
         trees->tree_{j}.depth * sizeof({type}));
"""

_FOLD = """\
static void fold_{number}(cc_args *a, const int64_t *w) {{
  const int64_t rank = a->world->rank, size = a->world->size;
  cc_tree_{tree} tree;
  tree.depth = tree.filled = 0;
  for (int64_t q = 0; q < size; q++) {{
    const {type} *x = (const {type} *)a->pointers[{partials} * size + q];
    uint64_t leaf = (uint64_t)w[2 * q], end = (uint64_t)w[2 * q + 1], level;
    for (; leaf < end; leaf += (uint64_t)1 << level) {{
      level = 63 - (uint64_t)__builtin_clzll(end - leaf);
      if (leaf && (uint64_t)__builtin_ctzll(leaf) < level)
        level = (uint64_t)__builtin_ctzll(leaf);
      cc_push_{tree}(&tree, *x++, (uint32_t)level, leaf >> level);
    }}
  }}
  *({type} *)a->pointers[{result} * size + rank] = cc_total_{tree}(&tree);
}}
"""


def fold_fields(plan: Plan, tile: Tile, number: int, step: Reduce) -> dict[str, object]:
    """Return what the templates of one reduction of a tile are filled with."""
    dtype = plan.buffer(step.buffer).dtype
    j = reductions(tile).index(step)
    words = TileWord.REST + j * FOLD_WORDS
    return {
        "number": number,
        "j": j,
        "type": c_type(dtype),
        "tree": tree_name(step.primitive, dtype),
        "words": words,
        "buffer": [buffer.name for buffer in plan.buffers].index(step.buffer),
        "first_leaf": f"w[{words + 2}]" if step.is_partial else "0",
        "FOLD_BLOCK": FOLD_BLOCK,
    }


def fold_head(plan: Plan, tile: Tile, number: int) -> str:
    """Return what a tile declares for its reductions."""
    return _each(plan, tile, number, _HEAD + _HEAD_ROWS, _HEAD + _HEAD_WHOLE)


def fold_feed(plan: Plan, tile: Tile, number: int) -> str:
    """Return what a tile does with a block's elements."""
    return _each(plan, tile, number, _FEED_ROWS, _FEED_WHOLE)


def fold_end(plan: Plan, tile: Tile, number: int) -> str:
    """Return what a tile does when its elements are done."""
    return _each(plan, tile, number, _END_ROWS, _END_WHOLE)


def join_text(plan: Plan, tile: Tile, number: int) -> str:
    """Return a type for the trees of one thread, and what joins those of all; or ""."""
    steps = [step for step in reductions(tile) if folds_whole(step, tile)]
    if not steps:
        return ""
    fields = [fold_fields(plan, tile, number, step) for step in steps]
    declared = " ".join("cc_tree_{tree} tree_{j};".format(**each) for each in fields)
    totals = [
        (_STORE_SUBTREES if step.is_partial else _STORE_TOTAL).format(**each)
        for step, each in zip(steps, fields, strict=True)
    ]
    joined = _JOIN.format(
        number=number,
        parts="".join(_JOIN_PART.format(**each) for each in fields),
        totals="".join(totals),
    )
    return f"typedef struct {{ {declared} }} trees_{number};\n{joined}"


def _each(plan: Plan, tile: Tile, number: int, rows: str, whole: str) -> str:
    return "".join(
        (whole if folds_whole(step, tile) else rows).format(
            **fold_fields(plan, tile, number, step)
        )
        for step in reductions(tile)
    )


def fold_text(plan: Plan, fold: Fold, number: int) -> str:
    """Return the function that folds the subtrees of all ranks."""
    dtype = plan.buffer(fold.result).dtype
    names = [buffer.name for buffer in plan.buffers]
    return _FOLD.format(
        number=number,
        tree=tree_name(fold.primitive, dtype),
        type=c_type(dtype),
        partials=names.index(fold.partials),
        result=names.index(fold.result),
    )

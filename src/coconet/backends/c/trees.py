"""C text of the fixed tree (plan/tree.py): elements in, folds or subtrees out.

A tree keeps the folds of whole subtrees, largest first, as a binary counter keeps its
digits: a leaf that completes a pair is folded with its sibling at once.
"""

from __future__ import annotations

from coconet.backends.c.dialect import apply_text, c_type, literal_text
from coconet.ir import DType
from coconet.plan import Fold, Plan, Reduce, Tile
from coconet.plan.tree import MAX_SUBTREES, empty_fold, identity

__all__ = ["COLUMNS", "tree_name", "trees"]

COLUMNS = 128
"""How many columns are folded side by side; their lanes fit a first-level cache."""


def tree_name(primitive: str, dtype: DType) -> str:
    """Return the suffix of the functions that fold by this primitive."""
    return f"{primitive}_{dtype}"


def trees(plan: Plan) -> str:
    """Return the functions of every kind of tree that a plan folds by."""
    kinds: dict[tuple[str, DType], None] = {}
    for instruction in plan.body:
        match instruction:
            case Fold(result, _, primitive, _):
                kinds[primitive, plan.buffer(result).dtype] = None
            case Tile(body=body):
                for step in body:
                    if isinstance(step, Reduce):
                        dtype = plan.buffer(step.buffer).dtype
                        kinds[step.primitive, dtype] = None
            case _:
                pass
    texts = [_tree_text(primitive, dtype) for primitive, dtype in kinds]
    head = f"enum {{ MAX_SUBTREES = {MAX_SUBTREES}, COLUMNS = {COLUMNS} }};\n"
    return "\n".join([head + _TREE, *texts]) if texts else ""


def _tree_text(primitive: str, dtype: DType) -> str:
    name, kind = tree_name(primitive, dtype), c_type(dtype)
    fold = apply_text(primitive, ["a", "b"], dtype, dtype)
    absent, empty = (
        literal_text(get(primitive, dtype.numpy).item(), dtype)
        for get in (identity, empty_fold)
    )
    return (
        f"CC_INLINE {kind} cc_fold_{name}({kind} a, {kind} b) {{ return {fold}; }}\n"
        f"CC_TREE({name}, {kind}, {absent}, {empty})\n"
        f"CC_COLUMNS({name}, {kind}, {absent}, {empty})\n"
    )


_TREE = r"""
/* A loop that is vectorised, not unrolled first. */
#if defined(__clang__)
#define CC_LOOP
#else
#define CC_LOOP _Pragma("GCC unroll 1")
#endif
#define CC_TREE(name, type, absent, empty)                                          \
  typedef struct {                                                                  \
    uint64_t leaves; /* the index of the next one */                                \
    uint32_t depth, filled;                                                         \
    uint8_t level[MAX_SUBTREES];                                                    \
    type fold[MAX_SUBTREES], open[64];                                              \
  } cc_tree_##name;                                                                 \
  CC_INLINE void cc_push_##name(cc_tree_##name *t, type x, uint32_t level,          \
                                uint64_t index) {                                   \
    while ((index & 1) && t->depth && t->level[t->depth - 1] == level) {            \
      x = cc_fold_##name(t->fold[--t->depth], x);                                   \
      index >>= 1;                                                                  \
      level++;                                                                      \
    }                                                                               \
    t->level[t->depth] = (uint8_t)level;                                            \
    t->fold[t->depth++] = x;                                                        \
  }                                                                                 \
  CC_INLINE void cc_leaf_##name(cc_tree_##name *t, const type *x) {                 \
    type lane[16];                                                                  \
    CC_LOOP for (int j = 0; j < 16; j++) {                                          \
      const type two = cc_fold_##name(x[j], x[j + 16]);                             \
      lane[j] = cc_fold_##name(cc_fold_##name(two, x[j + 32]), x[j + 48]);          \
    }                                                                               \
    CC_LOOP for (int j = 0; j < 8; j++)                                             \
      lane[j] = cc_fold_##name(lane[j], lane[j + 8]);                               \
    CC_LOOP for (int j = 0; j < 4; j++)                                             \
      lane[j] = cc_fold_##name(lane[j], lane[j + 4]);                               \
    CC_LOOP for (int j = 0; j < 2; j++)                                             \
      lane[j] = cc_fold_##name(lane[j], lane[j + 2]);                               \
    cc_push_##name(t, cc_fold_##name(lane[0], lane[1]), 0, t->leaves++);            \
  }                                                                                 \
  CC_INLINE void cc_feed_##name(cc_tree_##name *t, const type *x, int64_t n) {      \
    if (t->filled) {                                                                \
      const int64_t room = 64 - t->filled, taken = room < n ? room : n;             \
      memcpy(t->open + t->filled, x, (size_t)taken * sizeof *x);                    \
      t->filled += (uint32_t)taken;                                                 \
      if (t->filled < 64) return;                                                   \
      t->filled = 0;                                                                \
      cc_leaf_##name(t, t->open);                                                   \
      x += taken;                                                                   \
      n -= taken;                                                                   \
    }                                                                               \
    for (; n >= 64; n -= 64, x += 64) cc_leaf_##name(t, x);                         \
    memcpy(t->open, x, (size_t)n * sizeof *x);                                      \
    t->filled = (uint32_t)n;                                                        \
  }                                                                                 \
  CC_INLINE void cc_close_##name(cc_tree_##name *t) {                               \
    if (!t->filled) return;                                                         \
    for (uint32_t j = t->filled; j < 64; j++) t->open[j] = absent;                  \
    t->filled = 0;                                                                  \
    cc_leaf_##name(t, t->open);                                                     \
  }                                                                                 \
  /* Go on with the subtrees of the piece that follows; both are closed. */           \
  CC_INLINE void cc_join_##name(cc_tree_##name *t, const cc_tree_##name *next) {    \
    for (uint32_t j = 0; j < next->depth; j++) {                                    \
      const uint32_t level = next->level[j];                                        \
      cc_push_##name(t, next->fold[j], level, t->leaves >> level);                  \
      t->leaves += (uint64_t)1 << level;                                            \
    }                                                                               \
  }                                                                                 \
  CC_INLINE type cc_total_##name(cc_tree_##name *t) {                               \
    cc_close_##name(t);                                                             \
    t->leaves = 0;                                                                  \
    if (!t->depth) return empty;                                                    \
    type x = t->fold[--t->depth];                                                   \
    while (t->depth) x = cc_fold_##name(t->fold[--t->depth], x);                    \
    return x;                                                                       \
  }

/* The same tree for columns side by side: `row` is folded in, element by element. */
#define CC_COLUMNS(name, type, absent, empty)                                       \
  typedef struct {                                                                  \
    uint64_t rows;                                                                  \
    uint32_t depth;                                                                 \
    uint8_t level[64];                                                              \
    type lane[16][COLUMNS], fold[64][COLUMNS];                                      \
  } cc_columns_##name;                                                              \
  CC_INLINE void cc_fold_columns_##name(type *restrict a, const type *restrict b,   \
                                        int64_t n) {                                \
    for (int64_t i = 0; i < n; i++) a[i] = cc_fold_##name(a[i], b[i]);              \
  }                                                                                 \
  CC_INLINE void cc_leaf_columns_##name(cc_columns_##name *t, int64_t n) {          \
    uint64_t index = (t->rows - 1) / 64;                                            \
    uint32_t level = 0;                                                             \
    for (int w = 8; w; w /= 2)                                                      \
      for (int j = 0; j < w; j++)                                                   \
        cc_fold_columns_##name(t->lane[j], t->lane[j + w], n);                      \
    while ((index & 1) && t->depth && t->level[t->depth - 1] == level) {            \
      type *left = t->fold[--t->depth];                                             \
      cc_fold_columns_##name(left, t->lane[0], n);                                  \
      memcpy(t->lane[0], left, (size_t)n * sizeof *left);                           \
      index >>= 1;                                                                  \
      level++;                                                                      \
    }                                                                               \
    t->level[t->depth] = (uint8_t)level;                                            \
    memcpy(t->fold[t->depth++], t->lane[0], (size_t)n * sizeof(type));              \
  }                                                                                 \
  CC_INLINE void cc_feed_columns_##name(cc_columns_##name *t, const type *row,      \
                                        int64_t n) {                                \
    const uint64_t place = t->rows++ % 64;                                          \
    if (place < 16)                                                                 \
      memcpy(t->lane[place], row, (size_t)n * sizeof *row);                         \
    else                                                                            \
      cc_fold_columns_##name(t->lane[place % 16], row, n);                          \
    if (place == 63) cc_leaf_columns_##name(t, n);                                  \
  }                                                                                 \
  CC_INLINE void cc_total_columns_##name(cc_columns_##name *t, int64_t n, type *to) { \
    for (uint64_t j = t->rows % 64; j && j < 16; j++)                               \
      for (int64_t i = 0; i < n; i++) t->lane[j][i] = absent;                       \
    if (t->rows % 64) cc_leaf_columns_##name(t, n);                                 \
    for (int64_t i = 0; i < n && !t->depth; i++) to[i] = empty;                     \
    if (!t->depth) return;                                                          \
    while (--t->depth)                                                              \
      cc_fold_columns_##name(t->fold[t->depth - 1], t->fold[t->depth], n);          \
    memcpy(to, t->fold[0], (size_t)n * sizeof *to);                                 \
  }
"""

"""Plan to C: one function per loop, and one that runs them in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coconet.backends.c.dialect import (
    PRELUDE,
    apply_text,
    c_type,
    convert_text,
    literal_text,
)
from coconet.backends.c.folds import (
    fold_end,
    fold_feed,
    fold_fields,
    fold_head,
    fold_text,
    join_text,
)
from coconet.backends.c.halves import HALVES
from coconet.backends.c.rounds import rounds_text
from coconet.backends.c.trees import trees
from coconet.backends.c.words import (
    FOLD_WORDS,
    Move,
    TileWord,
    folds_columns,
    folds_whole,
    move_of,
    reductions,
    row_width,
    used_consts,
    views,
    word_count,
)
from coconet.plan import (
    EVERY,
    OWN,
    Apply,
    Arrive,
    Barrier,
    Constant,
    FenceStores,
    Fold,
    Index,
    Load,
    Peer,
    Plan,
    Position,
    Reduce,
    Register,
    Step,
    Store,
    Tile,
    View,
    inboxed,
)

__all__ = ["print_plan"]


def print_plan(plan: Plan) -> str:
    """Return the plan as one C file.

    Raises UnsupportedError for what the C backend cannot do.
    """
    parts = ['#include "runtime.h"', PRELUDE + HALVES + trees(plan)]
    calls: list[str] = []
    unless = "!a->num_inboxed && " if inboxed(plan) else ""
    words = 0
    for number, instruction in enumerate(plan.body):
        match instruction:
            case Tile():
                joined = join_text(plan, instruction, number)
                parts.append(joined + _TilePrinter(plan, instruction, number).text())
                parts.append(rounds_text(plan, instruction, number))
                calls.append(_call_text(instruction, number, words))
                words += word_count(instruction, plan.ranks)
            case Fold():
                parts.append(fold_text(plan, instruction, number))
                calls.append(f"fold_{number}(a, a->words + {words});")
                words += word_count(instruction, plan.ranks)
            case Arrive():
                calls.append("if ((code = a->world->arrive(a))) goto end;")
            case Barrier(where):
                wait = f"(code = a->world->barrier(a, {where}))"
                calls.append(f"if ({unless}{wait}) goto end;")
            case FenceStores():
                calls.append("cc_fence_stores();")
    body = "\n".join(f"  {call}" for call in calls)
    parts.append(_ENTRY.format(name=plan.name, ranks=plan.ranks, body=body))
    return "\n".join(parts)


def _call_text(tile: Tile, number: int, words: int) -> str:
    """Return how a tile is run."""
    if tile.staged:
        run = f"a->world->run_tile(a, &rounds_{number}, a->words + {words})"
        return f"if ((code = {run})) goto end;"
    call = f"a->world->run(a, tile_{number}, a->words + {words});"
    is_joined = any(folds_whole(step, tile) for step in reductions(tile))
    return _JOINED.format(number=number, call=call) if is_joined else call


_JOINED = """\
{{
    trees_{number} trees[CC_MAX_THREADS];
    a->scratch = trees;
    {call}
    join_{number}(a, trees);
  }}"""

_ENTRY = """\
/* program {name} on {ranks} ranks */
int32_t cc_kernel(cc_args *a) {{
  int32_t code = CC_DONE;
  const __auto_type saved = cc_enter();
{body}
  goto end;
end:
  cc_leave(saved);
  return code;
}}
"""

_LOOP = """\
  for (int64_t from = 0; from < n; from += CC_CHUNK) {{
    const int64_t to = n - from < CC_CHUNK ? n : from + CC_CHUNK;
    if (left - from > CC_AHEAD + CC_CHUNK) {{
{fetches}    }}
    for (int64_t i = from; i < to; i++) {{
{loop}
    }}
  }}
}}
"""

_TILE = """\
static void tile_{number}(cc_args *a, const int64_t *w, int64_t part, int64_t parts) {{
  const int64_t extent = w[{EXTENT}], inner = w[{INNER}], lo = w[{LO}];
  const int64_t length = (w[{HI}] - lo) * inner, total = w[{OUTER}] * length;
  const int64_t rank = a->world->rank, size = a->world->size;
{share}  char **const at = a->pointers;
  (void)rank;
  (void)size;
{folds}  for (int64_t piece = begin, n; piece < end; piece += n) {{
    const int64_t o = piece / length, t = piece - o * length;
    const int64_t global = (o * extent + lo) * inner + t;
    (void)global;
    n = end - piece < w[{BLOCK}] ? end - piece : w[{BLOCK}];
    n = length - t < n ? length - t : n;
{rows}    body_{number}({arguments});
{spread}{feeds}  }}
{ends}}}
"""

_COLUMNS = """\
static void tile_{number}(cc_args *a, const int64_t *w, int64_t part, int64_t parts) {{
  const int64_t extent = w[{EXTENT}], inner = w[{INNER}], lo = w[{LO}];
  const int64_t length = (w[{HI}] - lo) * inner;
  const int64_t folded = w[{words}], columns = w[{words} + 2];
  const int64_t total = w[{words} + 1] * columns;
  const int64_t rank = a->world->rank, size = a->world->size;
{share}  char **const at = a->pointers;
  {type} fold_0[COLUMNS], *const to = ({type} *)at[{buffer} * size + rank];
  cc_columns_{tree} tree;
  for (int64_t kept = begin, n; kept < end; kept += n) {{
    const int64_t outer = kept / columns, column_0 = kept - outer * columns;
    n = end - kept < COLUMNS ? end - kept : COLUMNS;
    n = columns - column_0 < n ? columns - column_0 : n;
    tree.rows = tree.depth = 0;
    for (int64_t r = 0; r < folded; r++) {{
      const int64_t piece = (outer * folded + r) * columns + column_0;
      const int64_t o = piece / length, t = piece - o * length;
      const int64_t global = (o * extent + lo) * inner + t;
      (void)global;
      /* the least number is found in the first row already */
      n = length - t < n ? length - t : n;
{rows}      body_{number}({arguments});
      cc_feed_columns_{tree}(&tree, fold_0, n);
    }}
    cc_total_columns_{tree}(&tree, n, to + kept);
  }}
}}
"""

_SHARE = """\
  const int64_t first = a->round ? a->round->begin : 0;
  const int64_t last = a->round ? a->round->end : total;
  const int64_t share = ((last - first) / parts / w[{GRAIN}] + 1) * w[{GRAIN}];
  const int64_t begin = last - first < share * part ? last : first + share * part;
  const int64_t end = last - begin < share ? last : begin + share;
"""

_SPREAD = """\
    for (int64_t q = 1; q < size; q++) {{
      const int64_t peer = (rank + q) % size;
      {type} *to = ({type} *)at[{buffer} * size + peer] + {offset};
      const {type} *from = ({type} *)at[{buffer} * size + rank] + {offset};
      if (w[{STREAM}]{slots})
        cc_stream_copy(to, from, (size_t)n * sizeof *to);
      else
        memcpy(to, from, (size_t)n * sizeof *to);
    }}
"""

_Slot = tuple[str, Peer, Index | View]


@dataclass(slots=True)
class _TilePrinter:
    """Prints one tile: its element loop, and the loop over blocks around it."""

    plan: Plan
    tile: Tile
    number: int
    slots: dict[_Slot, int] = field(default_factory=dict[_Slot, int])
    written: set[int] = field(default_factory=set[int])
    consts: dict[Constant, None] = field(default_factory=dict[Constant, None])
    strided: dict[View, None] = field(default_factory=dict[View, None])
    counted: dict[Index | View, int] = field(default_factory=dict[Index | View, int])

    @property
    def folds(self) -> tuple[Reduce, ...]:
        """The steps that fold rows."""
        return reductions(self.tile)

    def text(self) -> str:
        """Return both functions."""
        lines = [self._step(step) for step in self.tile.body]
        loop = "\n".join(f"      {line}" for line in lines)
        heads = "".join(f"  {self._const_text(const)}\n" for const in self.consts)
        named = [self._parameter(slot) for slot in self.slots]
        for j, fold in enumerate(self.folds):
            kind = c_type(self.plan.buffer(fold.buffer).dtype)
            named.append(f"{kind} *restrict f{j}")
        named += [f"const int64_t s{j}" for j in range(len(self.strided))]
        named += [f"const int64_t p{j}" for j in self.counted.values()]
        parameters = ", ".join(named)
        comment = f"/* {self.tile.name} */\n"
        body = (
            f"static __attribute__((noinline)) void body_{self.number}("
            + "const int64_t n, const int64_t left, const cc_word *k"
            + (f", {parameters}" if parameters else "")
            + f") {{\n  (void)k;\n{heads}"
            + _LOOP.format(fetches=self._fetches(), loop=loop)
        )
        return comment + body + self._outer()

    def _left(self) -> str:
        """Return how many elements lie one behind the other from a block's first on."""
        return "n" if folds_columns(self.tile) else "end - piece"

    def _fetches(self) -> str:
        """Return code that fetches what a later turn of the loop reads."""
        found: list[str] = []
        for (buffer, _, index), number in self.slots.items():
            if self._move(index) is Move.NEXT:
                size = self.plan.buffer(buffer).dtype.itemsize
                found.append(f"      cc_fetch(b{number} + from, {size});\n")
        return "".join(found)

    def _outer(self) -> str:
        pointers = [self._argument(slot) for slot in self.slots]
        pointers += [f"fold_{j}" for j in range(len(self.folds))]
        numbers = [self._stride(view) for view in self.strided]
        numbers += [self._offset(index) for index in self.counted]
        fixed: dict[str, Any] = {word.name: int(word) for word in TileWord}
        fixed |= {
            "arguments": ", ".join(
                ["n", self._left(), "a->consts", *pointers, *numbers]
            ),
            "rows": self._rows(),
            "share": _SHARE.format(**fixed),
        }
        if folds_columns(self.tile):
            (step,) = self.folds
            return _COLUMNS.format(
                **fixed, **fold_fields(self.plan, self.tile, self.number, step)
            )
        place = self.plan, self.tile, self.number
        return _TILE.format(
            number=self.number,
            spread="".join(self._spread(step) for step in self.tile.body),
            folds=fold_head(*place),
            feeds=fold_feed(*place),
            ends=fold_end(*place),
            **fixed,
        )

    def _slot(self, buffer: str, peer: Peer, index: Index | View) -> int:
        key = buffer, OWN if peer is EVERY else peer, index
        return self.slots.setdefault(key, len(self.slots))

    def _step(self, step: Step) -> str:
        match step:
            case Load(result, buffer, peer, index):
                slot = self._slot(buffer, peer, index)
                value = f"b{slot}[{self._element(index)}]"
                return f"const {c_type(result.dtype)} r{result.number} = {value};"
            case Position(result, index):
                first = self.counted.setdefault(index, len(self.counted))
                number = f"p{first} + {self._element(index)}"
                return f"const int64_t r{result.number} = {number};"
            case Apply(result, primitive, args):
                texts = [self._operand(arg) for arg in args]
                value = apply_text(primitive, texts, result.dtype, args[-1].dtype)
                return f"const {c_type(result.dtype)} r{result.number} = {value};"
            case Store(buffer, peer, index, source):
                slot = self._slot(buffer, peer, index)
                self.written.add(slot)
                return f"b{slot}[{self._element(index)}] = {self._operand(source)};"
            case Reduce(source=source):
                return f"f{self.folds.index(step)}[i] = {self._operand(source)};"

    def _element(self, index: Index | View) -> str:
        """Return which element of a slot's pointer belongs to element i of the row."""
        move = self._move(index)
        if move is not Move.STRIDE:
            return "i" if move is Move.NEXT else "0"
        assert isinstance(index, View)
        self.strided[index] = None
        return f"i * s{list(self.strided).index(index)}"

    def _move(self, index: Index | View) -> Move:
        return move_of(index, self.tile) if isinstance(index, View) else Move.NEXT

    def _operand(self, operand: Register | Constant) -> str:
        if isinstance(operand, Register):
            return f"r{operand.number}"
        expr = self.plan.consts[operand.number]
        if expr.kind == "literal":
            return literal_text(expr.value, operand.dtype)
        self.consts[operand] = None
        return f"k{operand.number}_{operand.dtype}"

    def _const_text(self, const: Constant) -> str:
        part = "i" if self.plan.consts[const.number].is_int else "f"
        kind, name = c_type(const.dtype), f"k{const.number}_{const.dtype}"
        place = used_consts(self.plan).index(const.number)
        truth = "!!" if const.dtype.kind == "bool" else ""
        value = convert_text(f"{truth}k[{place}].{part}", const.dtype)
        return f"const {kind} {name} = {value};"

    def _parameter(self, slot: _Slot) -> str:
        number = self.slots[slot]
        const = "" if number in self.written else "const "
        kind = c_type(self.plan.buffer(slot[0]).dtype)
        return f"{const}{kind} *restrict b{number}"

    def _argument(self, slot: _Slot) -> str:
        buffer, peer, index = slot
        position = peer if isinstance(peer, int) else "rank"
        kind = c_type(self.plan.buffer(buffer).dtype)
        base = f"({kind} *)at[{self._buffer_number(buffer)} * size + {position}]"
        return f"{base} + {self._offset(index)}"

    def _buffer_number(self, name: str) -> int:
        return [buffer.name for buffer in self.plan.buffers].index(name)

    def _offset(self, index: Index | View) -> str:
        if isinstance(index, View):
            return f"row_{views(self.tile).index(index)}"
        return "global" if index is Index.GLOBAL else "piece"

    def _words_of(self, view: View) -> int:
        """Return where the words of a view begin."""
        leading = len(self.tile.shape) - row_width(self.tile)
        first = TileWord.REST + FOLD_WORDS * len(self.folds) + leading
        return first + views(self.tile).index(view) * (2 + leading)

    def _stride(self, view: View) -> str:
        leading = len(self.tile.shape) - row_width(self.tile)
        return f"w[{self._words_of(view) + 1 + leading}]"

    def _rows(self) -> str:
        """Return code that ends a block with its row, and finds where views are."""
        found = views(self.tile)
        if not found:
            return ""
        leading = len(self.tile.shape) - row_width(self.tile)
        extents = TileWord.REST + FOLD_WORDS * len(self.folds)
        width = f"w[{int(TileWord.ROW_WIDTH)}]"
        lines = [
            f"const int64_t row = global / {width}, column = global % {width};",
            f"n = {width} - column < n ? {width} - column : n;",
            "int64_t rest = row;",
            "(void)rest;",
        ]
        for number, view in enumerate(found):
            move, start = self._move(view), f"w[{self._words_of(view)}]"
            if move is not Move.FIXED:
                step = "" if move is Move.NEXT else f" * {self._stride(view)}"
                start += f" + column{step}"
            lines.append(f"int64_t row_{number} = {start};")
        for dim in reversed(range(leading)):
            lines.append(f"const int64_t d{dim} = rest % w[{extents + dim}];")
            lines.append(f"rest /= w[{extents + dim}];")
            for number, view in enumerate(found):
                stride = self._words_of(view) + 1 + dim
                lines.append(f"row_{number} += d{dim} * w[{stride}];")
        return "".join(f"    {line}\n" for line in lines)

    def _spread(self, step: Step) -> str:
        if not isinstance(step, Store) or step.peer is not EVERY:
            return ""
        return _SPREAD.format(
            type=c_type(self.plan.buffer(step.buffer).dtype),
            buffer=self._buffer_number(step.buffer),
            offset=self._offset(step.index),
            STREAM=int(TileWord.STREAM),
            slots=self._is_no_slot(step.buffer),
        )

    def _is_no_slot(self, buffer: str) -> str:
        """Return code that a peer's buffer is not its slots, which it reads at once."""
        if buffer not in self.tile.staged:
            return ""
        place = self.tile.staged.index(buffer)
        return f" && !(a->round && a->round->slots[{place}] >> peer & 1)"

"""Plan to C: one function per tile, and one that runs them in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from coconet.backends.c.dialect import (
    PRELUDE,
    apply_text,
    c_type,
    convert_text,
    literal_text,
)
from coconet.backends.c.halves import HALVES
from coconet.backends.c.words import (
    TileWord,
    row_maps,
    row_width,
    used_consts,
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
    Index,
    Load,
    Peer,
    Plan,
    Register,
    RowMap,
    Store,
    Tile,
)

__all__ = ["print_plan"]


def print_plan(plan: Plan) -> str:
    """Return the plan as one C file.

    Raises UnsupportedError for what the C backend cannot do.
    """
    parts = ['#include "runtime.h"', PRELUDE + HALVES]
    calls: list[str] = []
    words = 0
    for instruction in plan.body:
        match instruction:
            case Tile():
                number = len(parts) - 2
                parts.append(_TilePrinter(plan, instruction, number).text())
                calls.append(f"tile_{number}(a, a->words + {words});")
                words += word_count(instruction)
            case Arrive():
                calls.append("if ((code = a->world->arrive(a))) goto end;")
            case Barrier(where):
                calls.append(f"if ((code = a->world->barrier(a, {where}))) goto end;")
            case FenceStores():
                calls.append("cc_fence_stores();")
    body = "\n".join(f"  {call}" for call in calls)
    parts.append(_ENTRY.format(name=plan.name, ranks=plan.ranks, body=body))
    return "\n".join(parts)


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

_TILE = """\
static void tile_{number}(cc_args *a, const int64_t *w) {{
  const int64_t outer = w[{OUTER}], extent = w[{EXTENT}], inner = w[{INNER}];
  const int64_t lo = w[{LO}], hi = w[{HI}], length = (hi - lo) * inner;
  const int64_t rank = a->world->rank, size = a->world->size;
  char **const at = a->pointers;
  (void)rank;
  (void)size;
  for (int64_t o = 0; o < outer; o++) {{
    const int64_t global = (o * extent + lo) * inner, piece = o * length;
    (void)global;
    (void)piece;
    for (int64_t t = 0, n; t < length; t += n) {{
      n = length - t < w[{BLOCK}] ? length - t : w[{BLOCK}];
{rows}      body_{number}({arguments});
{spread}    }}
  }}
}}
"""

_SPREAD = """\
      for (int64_t q = 1; q < size; q++) {{
        const int64_t peer = (rank + q) % size;
        {type} *to = ({type} *)at[{buffer} * size + peer] + {offset};
        const {type} *from = ({type} *)at[{buffer} * size + rank] + {offset};
        if (w[{STREAM}])
          cc_stream_copy(to, from, (size_t)n * sizeof *to);
        else
          memcpy(to, from, (size_t)n * sizeof *to);
      }}
"""

_Slot = tuple[str, Peer, Index | RowMap]


@dataclass(slots=True)
class _TilePrinter:
    """Prints one tile: its element loop, and the loop over blocks around it."""

    plan: Plan
    tile: Tile
    number: int
    slots: dict[_Slot, int] = field(default_factory=dict[_Slot, int])
    written: set[int] = field(default_factory=set[int])
    consts: dict[Constant, None] = field(default_factory=dict[Constant, None])

    def text(self) -> str:
        """Return both functions."""
        lines = [self._step(step) for step in self.tile.body]
        loop = "\n".join(f"    {line}" for line in lines)
        heads = "".join(f"  {self._const_text(const)}\n" for const in self.consts)
        parameters = ", ".join(self._parameter(slot) for slot in self.slots)
        comment = f"/* {self.tile.name} */\n"
        body = (
            f"static __attribute__((noinline)) void body_{self.number}("
            + "const int64_t n, const cc_word *k"
            + (f", {parameters}" if parameters else "")
            + f") {{\n  (void)k;\n{heads}"
            + f"  for (int64_t i = 0; i < n; i++) {{\n{loop}\n  }}\n}}\n"
        )
        return comment + body + self._outer()

    def _outer(self) -> str:
        pointers = [self._argument(slot) for slot in self.slots]
        spread = "".join(self._spread(step) for step in self.tile.body)
        fixed = {word.name: int(word) for word in TileWord}
        return _TILE.format(
            number=self.number,
            arguments=", ".join(["n", "a->consts", *pointers]),
            rows=self._rows(),
            spread=spread,
            **fixed,
        )

    def _slot(self, buffer: str, peer: Peer, index: Index | RowMap) -> int:
        key = buffer, OWN if peer is EVERY else peer, index
        return self.slots.setdefault(key, len(self.slots))

    def _step(self, step: Load | Apply | Store) -> str:
        match step:
            case Load(result, buffer, peer, index):
                slot = self._slot(buffer, peer, index)
                moves = not isinstance(index, RowMap) or self._row_moves(index)
                value = f"b{slot}[{'i' if moves else '0'}]"
                return f"const {c_type(result.dtype)} r{result.number} = {value};"
            case Apply(result, primitive, args):
                texts = [self._operand(arg) for arg in args]
                value = apply_text(primitive, texts, result.dtype, args[-1].dtype)
                return f"const {c_type(result.dtype)} r{result.number} = {value};"
            case Store(buffer, peer, index, source):
                slot = self._slot(buffer, peer, index)
                self.written.add(slot)
                return f"b{slot}[i] = {self._operand(source)};"

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

    def _offset(self, index: Index | RowMap) -> str:
        if isinstance(index, RowMap):
            return f"row_{row_maps(self.tile).index(index)}"
        return "global + t" if index is Index.GLOBAL else "piece + t"

    def _row_moves(self, row: RowMap) -> bool:
        width = row_width(self.tile)
        return width > 0 and row.follows[-1]

    def _rows(self) -> str:
        """Return code that ends a block with its row, and finds broadcast operands."""
        maps = row_maps(self.tile)
        if not maps:
            return ""
        leading = len(self.tile.shape) - row_width(self.tile)
        first = TileWord.ROWS + leading
        width = f"w[{int(TileWord.ROW_WIDTH)}]"
        lines = [
            f"const int64_t row = (global + t) / {width};",
            f"const int64_t column = (global + t) % {width};",
            f"n = {width} - column < n ? {width} - column : n;",
            "int64_t rest = row;",
        ]
        for number, row in enumerate(maps):
            start = f"w[{first + number * (1 + leading)}]"
            moves = " + column" if self._row_moves(row) else ""
            lines.append(f"int64_t row_{number} = {start}{moves};")
        for dim in reversed(range(leading)):
            lines.append(f"const int64_t d{dim} = rest % w[{TileWord.ROWS + dim}];")
            lines.append(f"rest /= w[{TileWord.ROWS + dim}];")
            for number in range(len(maps)):
                stride = first + number * (1 + leading) + 1 + dim
                lines.append(f"row_{number} += d{dim} * w[{stride}];")
        return "".join(f"      {line}\n" for line in lines)

    def _spread(self, step: Load | Apply | Store) -> str:
        if not isinstance(step, Store) or step.peer is not EVERY:
            return ""
        return _SPREAD.format(
            type=c_type(self.plan.buffer(step.buffer).dtype),
            buffer=self._buffer_number(step.buffer),
            offset=self._offset(step.index),
            STREAM=int(TileWord.STREAM),
        )

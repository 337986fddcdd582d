"""Small messages from every rank to every rank, and agreement on them."""

from __future__ import annotations

import ctypes
import hashlib
import struct

from coconet.errors import RanksDisagree
from coconet.runtime.build import build
from coconet.runtime.executable import Call, Kernel
from coconet.runtime.library import header_text
from coconet.runtime.world import World

__all__ = ["Exchange"]

_LENGTH = struct.Struct("q")
_FINGERPRINT = struct.Struct("4Q")

# Buffer 0 is this rank's row, which peers read; buffer 1, private, gets all rows.
_ROWS = """
#include "runtime.h"

int32_t cc_kernel(cc_args *a) {
  cc_world *w = a->world;
  const int32_t rc = w->arrive(a);
  if (rc) return rc;
  const size_t row = (size_t)a->words[0];
  for (int q = 0; q < w->size; q++)
    memcpy(a->pointers[w->size + w->rank] + q * row, a->pointers[q], row);
  return w->barrier(a, 1);
}
"""


class Exchange:
    """Messages between the ranks of a world; every method is called on all ranks.

    Blocks  until every rank calls
    Raises  RanksDisagree if another rank does something else meanwhile; PeerFailed,
            CollectiveTimeout
    """

    def __init__(self, world: World) -> None:
        """Compile what moves the rows.  Raises NoCompiler, CompileError."""
        self._world = world
        sources = {"rows.c": _ROWS, "runtime.h": header_text()}
        self._kernel = Kernel(build("exchange", sources))
        self._bound: dict[tuple[str, int], _Rows] = {}

    def rows(self, row: bytes, what: str = "an exchange") -> list[bytes]:
        """Return every rank's row, by rank; all have one length.

        what  tells calls apart: where ranks differ in it, none gets a row
        """
        key = what, len(row)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = _Rows(self._world, self._kernel, *key)
        return bound(row)

    def all_gather(self, message: bytes) -> list[bytes]:
        """Return every rank's message, by rank."""
        lengths = self.rows(_LENGTH.pack(len(message)))
        ends = [_LENGTH.unpack(length)[0] for length in lengths]
        room = -(-max(ends) // 64) * 64  # few lengths, so that few rows are bound
        whole = self.rows(message.ljust(room, b"\0"))
        return [row[:end] for row, end in zip(whole, ends, strict=True)]

    def from_rank_0(self, message: bytes) -> bytes:
        """Return the message of rank 0; what others pass is ignored."""
        return self.all_gather(message if self._world.rank == 0 else b"")[0]

    def agree(self, what: str, text: str) -> None:
        """Raise RanksDisagree on every rank unless all pass the same text."""
        mine = text.encode()
        digest = hashlib.sha256(mine).digest()
        if len(set(self.rows(digest, f"agreement on {what}"))) == 1:
            return
        texts = [each.decode() for each in self.all_gather(mine)]
        others = tuple(r for r, each in enumerate(texts) if each != texts[0])
        first, other = texts[0].splitlines(), texts[others[0]].splitlines()
        raise RanksDisagree(
            f"rank {others[0]} and rank 0 differ in {what}",
            got="; ".join(line for line in other if line not in first),
            need="; ".join(line for line in first if line not in other),
            fix="make the same call with the same arguments on every rank",
            ranks=others,
        )


class _Rows:
    """The kernel bound to rows of one length, for one purpose."""

    def __init__(self, world: World, kernel: Kernel, what: str, length: int) -> None:
        self._mine = world.pool.allocate(length)
        self._all = ctypes.create_string_buffer(max(1, world.size * length))
        self._length, self._size = length, world.size
        text = f"{what}, {length} bytes"
        self._call = Call(
            world,
            kernel,
            num_buffers=2,
            words=[length],
            num_scalars=0,
            num_consts=0,
            fingerprint=_FINGERPRINT.unpack(hashlib.sha256(text.encode()).digest()),
            text=text,
            waits=(what, f"the end of {what}"),
        )
        self._call.set_symmetric(0, self._mine.offset)
        self._call.set_private(1, ctypes.addressof(self._all))

    def __call__(self, row: bytes) -> list[bytes]:
        ctypes.memmove(self._mine.address, row, self._length)
        self._call()
        raw, length = self._all.raw, self._length
        return [raw[r * length : (r + 1) * length] for r in range(self._size)]

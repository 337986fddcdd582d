"""Small kernels written by hand, and a call of each."""

import numpy as np

from coconet.runtime.build import build
from coconet.runtime.executable import Call, Kernel
from coconet.runtime.library import header_text
from coconet.runtime.world import World

SOURCES = {
    # out[i] = sum over ranks of in[i]: buffer 0 is symmetric, buffer 1 private
    "total": """
#include "runtime.h"
int32_t cc_kernel(cc_args *a) {
  cc_world *w = a->world;
  int32_t rc = w->arrive(a);
  if (rc) return rc;
  int64_t *out = (int64_t *)a->pointers[w->size + w->rank];
  for (int64_t i = 0; i < a->words[0]; i++) {
    out[i] = 0;
    for (int q = 0; q < w->size; q++) out[i] += ((int64_t *)a->pointers[q])[i];
  }
  return w->barrier(a, 1);
}
""",
    # every rank writes consts[0] at its own place in the symmetric buffer of every rank
    "put": """
#include "runtime.h"
int32_t cc_kernel(cc_args *a) {
  cc_world *w = a->world;
  int32_t rc = w->arrive(a);
  if (rc) return rc;
  for (int q = 0; q < w->size; q++)
    ((double *)a->pointers[q])[w->rank] = a->consts[0].f;
  return w->barrier(a, 1);
}
""",
    # rank words[0] sends itself the signal words[1] between arrival and barrier
    "signal": """
#include "runtime.h"
#include <signal.h>
#include <unistd.h>
int32_t cc_kernel(cc_args *a) {
  cc_world *w = a->world;
  int32_t rc = w->arrive(a);
  if (rc) return rc;
  if (a->words[0] == w->rank) kill(getpid(), (int)a->words[1]);
  return w->barrier(a, 1);
}
""",
    # rank 2 dies once all are past the arrival; rank 1 is late to write into rank 0's
    # buffer 0, until buffer 1 of rank 0 says 2
    "late": """
#include "runtime.h"
#include <signal.h>
#include <unistd.h>
#define FLAG(q) ((int64_t *)a->pointers[w->size + (q)])
int32_t cc_kernel(cc_args *a) {
  cc_world *w = a->world;
  int32_t rc = w->arrive(a);
  if (rc) return rc;
  __atomic_store_n(FLAG(w->rank), 1, __ATOMIC_RELEASE);
  if (w->rank == 2) {
    for (int q = 0; q < 2; q++)
      while (!__atomic_load_n(FLAG(q), __ATOMIC_ACQUIRE));
    kill(getpid(), SIGKILL);
  }
  if (w->rank == 1) {
    while (__atomic_load_n(FLAG(0), __ATOMIC_ACQUIRE) != 2);
    for (int64_t i = 0; i < a->words[0]; i++) ((double *)a->pointers[0])[i] = 66;
    __atomic_store_n(FLAG(0), 3, __ATOMIC_RELEASE);
  }
  return w->barrier(a, 1);
}
""",
    # out[i] = sum over ranks of in[i], in parts; in one part of rank words[1] it dies
    "parts": """
#include "runtime.h"
#include <signal.h>
#include <unistd.h>
static void tile(cc_args *a, const int64_t *w, int64_t part, int64_t parts) {
  const cc_world *world = a->world;
  int64_t *out = (int64_t *)a->pointers[world->size + world->rank];
  if (world->rank == w[1] && part == parts - 1) kill(getpid(), SIGKILL);
  for (int64_t i = w[0] * part / parts; i < w[0] * (part + 1) / parts; i++) {
    out[i] = 0;
    for (int q = 0; q < world->size; q++) out[i] += ((int64_t *)a->pointers[q])[i];
  }
}
int32_t cc_kernel(cc_args *a) {
  cc_world *w = a->world;
  int32_t rc = w->arrive(a);
  if (rc) return rc;
  w->run(a, tile, a->words);
  return w->barrier(a, 1);
}
""",
}
WAITS = ("the arrival of program test (test.py:1)", "all_gather(p1) (test.py:2)")


def load(name: str) -> Kernel:
    return Kernel(build(name, {"kernel.c": SOURCES[name], "runtime.h": header_text()}))


def bind(world: World, name: str, **changes: object) -> Call:
    """Bind a kernel; changes replace single arguments of Call."""
    arguments = {
        "num_buffers": 2,
        "words": [-1, 0],
        "num_scalars": 1,
        "num_consts": 1,
        "fingerprint": (1, 2, 3, 4),
        "text": "program test\nschedule 1a2b\ng i64[8] symmetric",
        "waits": WAITS,
        "scalars": [("lr", "f64")],
    }
    return Call(world, load(name), **(arguments | changes))


class Total:
    """The kernel `total` on n numbers, or `parts`, which does the same in threads."""

    def __init__(self, world: World, n: int, threads: int = 0) -> None:
        self.given = world.pool.empty((n,), np.int64)
        self.out = np.empty((n,), np.int64)
        name = "parts" if threads else "total"
        self.call = bind(world, name, words=[n, -1], threads=threads or 1)
        offset = world.pool.offset_of(self.given.ctypes.data, self.given.nbytes)
        self.call.set_symmetric(0, offset)
        self.call.set_private(1, self.out.ctypes.data)

    def __call__(self, value: np.ndarray) -> np.ndarray:
        self.given[:] = value
        self.call()
        return self.out

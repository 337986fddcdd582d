"""Add numbers of all ranks NUM_CALLS times; every rank checks every sum.

The arguments move: two bindings take turns, the second one to fresh memory each time.
A second argument is what the counters of the runtime start from.
"""

import sys
from ctypes import c_uint32, c_void_p

import numpy as np
from kernels import Total
from saying import say

from coconet.runtime.world import init

world = init(timeout_s=30)
if len(sys.argv) > 2:
    # cc_world: two int32, 64 headers, 64 bases, epoch, seq; a header begins with seq
    start = int(sys.argv[2])
    for offset in (1032, 1036):
        c_uint32.from_address(world.address + offset).value = start
    c_uint32.from_address(world.pool.base).value = start
    for rank in range(world.size):
        header = c_void_p.from_address(world.address + 8 + 8 * rank).value
        while c_uint32.from_address(header).value == 0:
            pass
numbers = np.arange(16)
totals = [Total(world, 16), Total(world, 16)]
wrong = 0
for turn in range(int(sys.argv[1])):
    total = totals[turn % 2]
    if turn % 2:
        total.given = world.pool.empty((16,), np.int64)
        total.call.set_symmetric(0, total.given.ctypes.data - world.pool.base)
    got = total(numbers + turn * world.rank)
    want = world.size * numbers + turn * sum(range(world.size))
    wrong += not np.array_equal(got, want)
say({"wrong": wrong, "rank": world.rank})

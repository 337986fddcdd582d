"""Rank 0 fails in a call and lets go of its result, into which rank 1 still writes."""

import numpy as np
from kernels import bind
from saying import say

from coconet.errors import PeerFailed
from coconet.runtime.world import init

world = init(timeout_s=30)
pool = world.pool
result, flag = pool.empty((1000,), np.float64), pool.empty((1,), np.int64)
flag[:] = 0
call = bind(world, "late", num_buffers=2, words=[result.size])
call.set_symmetric(0, result.ctypes.data - pool.base)
call.set_symmetric(1, flag.ctypes.data - pool.base)
try:
    call()
except PeerFailed as error:
    kind = type(error).__name__
del result
after = pool.empty((1000,), np.float64)
after[:] = 1
if world.rank == 0:
    flag[:] = 2
    while flag[0] != 3:
        pass
say([kind, np.unique(after).tolist()])

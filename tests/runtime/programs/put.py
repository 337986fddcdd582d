"""Write into every rank's memory, which each rank has at another offset."""

import numpy as np
from kernels import bind
from saying import say

from coconet.runtime.world import init

world = init(timeout_s=30)
padding = world.pool.empty((1 + 3_000_000 * world.rank,), np.uint8)
received = world.pool.empty((world.size,), np.float64)
received[:] = -1
call = bind(world, "put", num_buffers=1)
call.set_symmetric(0, world.pool.offset_of(received.ctypes.data, received.nbytes))
call.consts[0] = 10.5 + world.rank
call()
say(received.tolist())

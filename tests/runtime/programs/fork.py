"""A forked child tries to use the world; the parents go on."""

import os
import sys

import numpy as np
from kernels import Total
from saying import say, say_error

from coconet.errors import UsedAfterFork
from coconet.runtime.world import init

world = init(timeout_s=30)
total = Total(world, 4, threads=2)
total(np.arange(4))
child = os.fork()
if child == 0:
    attempts = (
        lambda: total(np.arange(4)),
        lambda: world.pool.empty((4,), np.int64),
        init,
    )
    for attempt in attempts:
        try:
            attempt()
        except UsedAfterFork as error:
            say_error(error)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
say(total(np.arange(4)).tolist())

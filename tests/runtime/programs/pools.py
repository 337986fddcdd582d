"""Sums over ranks in THREADS threads; at the last one the victim dies in a thread.

Arguments: threads, calls, victim (-1: nobody).
"""

import os
import sys
import time

import numpy as np
from kernels import Total
from saying import say, say_error

from coconet.errors import PeerFailed
from coconet.runtime.world import init

threads, calls, victim = map(int, sys.argv[1:])
world = init(timeout_s=30)
total = Total(world, 100_003, threads)
numbers = np.arange(100_003)
wrong = 0
for turn in range(calls):
    got = total(numbers + turn * world.rank)
    want = world.size * numbers + turn * sum(range(world.size))
    wrong += not np.array_equal(got, want)
say({"wrong": wrong, "threads": len(os.listdir("/proc/self/task"))})
total.call.words[1] = victim
began = time.monotonic()
try:
    total(numbers)
except PeerFailed as error:
    seconds = time.monotonic() - began
    world.close()
    left = len(os.listdir("/proc/self/task"))
    say_error(error, seconds=seconds, left=left)

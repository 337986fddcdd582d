"""After ten good calls one rank goes wrong; the others say what they are told.

Arguments: the victim, what it does (kill, stop, exit, leave, raise), and when (before
its call, or inside the kernel).
"""

import os
import signal
import sys
import time

import numpy as np
from kernels import Total, bind
from saying import say, say_error

from coconet.errors import RunError, StatePoisoned
from coconet.runtime.world import init

victim, action, when = int(sys.argv[1]), sys.argv[2], sys.argv[3]
world = init(timeout_s=float(sys.argv[4]) if len(sys.argv) > 4 else 30)
signals = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
total = Total(world, 4)
for _ in range(10):
    total(np.arange(4))
call = bind(world, "signal", num_buffers=0)
call()
say("ready")
if when == "inside":
    call.words[:] = [victim, signals[action]]
elif world.rank == victim:
    if action == "exit":
        os._exit(0)
    if action == "leave":
        sys.exit(0)
    if action == "raise":
        raise ValueError("no such file")
    os.kill(os.getpid(), signals[action])
began = time.monotonic()
try:
    call()
    call()  # a rank that was stopped inside may end that call, but begins no other
except RunError as error:
    seconds = time.monotonic() - began
    try:
        call()
    except StatePoisoned:
        then = "poisoned"
    except RunError as again:
        then = type(again).__name__
    say_error(error, seconds=seconds, then=then)
    raise

"""Rank 1 sends rank 0 a Ctrl-C while rank 0 waits for it to arrive."""

import signal
import time

from kernels import bind
from saying import say_error

from coconet.errors import PeerFailed
from coconet.runtime.diagnosis import fault
from coconet.runtime.library import Report, library
from coconet.runtime.world import init

world = init(timeout_s=30)
call = bind(world, "signal", num_buffers=0)
call()
if world.rank == 1:
    seen = Report()
    while seen.calls < 2:
        library().cc_world_report(world.address, 0, seen)
        time.sleep(0.001)
    signal.pidfd_send_signal(world.pidfds[0], signal.SIGINT)
    while not fault(world).abort:
        time.sleep(0.001)
try:
    call()
except PeerFailed as error:
    say_error(error)

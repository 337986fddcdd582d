"""Rank 1 stops between arrival and barrier; who waits for it there is interrupted."""

import signal

from kernels import bind
from saying import say, say_error

from coconet.errors import PeerFailed, StatePoisoned
from coconet.runtime.world import init

world = init(timeout_s=60)
signal.signal(signal.SIGUSR1, lambda number, _: say(f"handled {number}"))
call = bind(world, "signal", num_buffers=0)
call()
say("ready")
call.words[:] = [1, signal.SIGSTOP]


def attempt() -> None:
    try:
        call()
    except (PeerFailed, StatePoisoned) as error:
        say_error(error)


try:
    attempt()
except KeyboardInterrupt:
    say("interrupted")
    attempt()
    call.restore()
attempt()

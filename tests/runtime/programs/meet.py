"""Meet the other ranks and say who is there, or what went wrong.

Arguments: timeout in seconds, and a version to pretend.
"""

import sys
import time
from importlib import metadata

from saying import say, say_error

from coconet.errors import RendezvousError
from coconet.runtime.world import init

if len(sys.argv) > 2:
    metadata.version = lambda _: sys.argv[2]
began = time.monotonic()
try:
    world = init(timeout_s=float(sys.argv[1]))
except RendezvousError as error:
    say_error(error, seconds=time.monotonic() - began)
    sys.exit(1)
say([world.rank, world.size])

"""Rank 1 calls otherwise than the rest; then all make one right call.

Arguments: what differs (fingerprint, scalar, text or bad), one after the other, and
"uncaught" to let the first error end the rank.
"""

import struct
import sys

import numpy as np
from kernels import Total, bind
from saying import error_of, say

from coconet.errors import RanksDisagree
from coconet.runtime.executable import arrive_bad
from coconet.runtime.world import init

world = init(timeout_s=30)
is_odd = world.rank == 1
for what in sys.argv[1:]:
    if what == "uncaught":
        continue
    changes = {}
    if is_odd and what == "fingerprint":
        changes["fingerprint"] = (1, 2, 3, 5)
    if is_odd and what == "text":
        changes["fingerprint"] = (9, 2, 3, 4)
        changes["text"] = "program test\nschedule 1a2b\ng i64[9] private"
    received = world.pool.empty((world.size,), np.float64)
    received[:] = -1
    call = bind(world, "put", num_buffers=1, **changes)
    call.set_symmetric(0, world.pool.offset_of(received.ctypes.data, received.nbytes))
    rate = 0.25 if is_odd and what == "scalar" else 0.5
    call.scalars[0] = struct.unpack("q", struct.pack("d", rate))[0]
    said = {"what": what}
    try:
        if is_odd and what == "bad":
            arrive_bad(world, "p has dtype f32\nand g has f16")
        else:
            call()
    except RanksDisagree as error:
        if "uncaught" in sys.argv:
            raise
        said["error"] = error_of(error, untouched=bool((received == -1).all()))
    say(said | {"total": Total(world, 4)(np.arange(4)).tolist()})

"""The start line: nobody passes before everybody is there."""

from __future__ import annotations

import os
import threading

from coconet.bench.start_line import START_BYTES, StartLine


def test_ranks_leave_together_round_after_round() -> None:
    fd = os.memfd_create("start-line")
    try:
        os.ftruncate(fd, 3 * START_BYTES)
        lines = [StartLine(fd, rank=rank, size=3) for rank in range(3)]
    finally:
        os.close(fd)
    rounds = [0, 0, 0]
    seen: list[int] = []

    def walk(rank: int) -> None:
        for done in range(1, 51):
            rounds[rank] = done
            lines[rank].wait()
            seen.append(min(rounds) - done)

    threads = [threading.Thread(target=walk, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 150
    assert min(seen) >= 0

"""One rank of `coconet tune`: tunes what ORDER says, rank 0 writes the decision.

python -m coconet.tuning.rank FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from coconet.runtime.world import init
from coconet.tuning.progress import Progress
from coconet.tuning.request import Request
from coconet.tuning.tune import tune
from coconet.verification.target import load_schedules

__all__ = ["DECISION", "ORDER", "Order", "main"]

ORDER = "order.json"
DECISION = "decision.json"


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the command line asked for.

    path, name  of the program
    is_live     whether somebody watches: lines that end in \\r reach a terminal
    """

    path: str
    name: str
    sizes: dict[str, int]
    slice_state: tuple[str, ...]
    time_box_s: float
    limit: int
    fresh: bool
    is_live: bool


def main(folder: Path) -> None:
    """Tune, together with the other ranks."""
    order = msgspec.json.decode((folder / ORDER).read_bytes(), type=Order)
    program, _ = load_schedules(Path(order.path), order.name)
    request = Request.of(
        program,
        sizes=order.sizes,
        slice_state=order.slice_state,
        time_box_s=order.time_box_s,
        limit=order.limit,
    )
    world = init()
    is_shown = order.is_live and world.rank == 0
    progress = Progress(sys.stderr if is_shown else None)
    tuned = tune(request, world, progress=progress, fresh=order.fresh)
    if world.rank == 0:
        (folder / DECISION).write_text(tuned.to_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""What the engines on torch.distributed's gloo share: the group."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from coconet.bench.engines.engine import Place

__all__ = ["Gloo", "distributed"]

distributed: Any = torch.distributed  # torch annotates few of its parameters


class Gloo:
    """A gloo group over loopback, with one thread per rank."""

    def __init__(self, place: Place) -> None:
        """Meet the other ranks at a file in the engine's folder."""
        torch.set_num_threads(1)
        self.library = f"torch {torch.__version__}"
        self.rank, self.size, self.task = place.rank, place.size, place.task
        distributed.init_process_group(
            "gloo",
            store=distributed.FileStore(str(Path(place.folder) / "store"), place.size),
            rank=place.rank,
            world_size=place.size,
            timeout=timedelta(seconds=120),
        )

    def close(self) -> None:
        """Leave the group."""
        distributed.destroy_process_group()

"""Cases that every rank of a world runs in the same order, and how each went."""

from __future__ import annotations

import gc
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from coconet.runtime.world import World, init

Case = Callable[[World], None]


class Cases:
    """A file's cases, by name; `folder` is shared by worlds of all sizes."""

    def __init__(self) -> None:
        self.worlds: dict[str, tuple[int, ...]] = {}
        self.folder = Path()
        self._functions: dict[str, Case] = {}

    def add(self, function: Case, worlds: tuple[int, ...] = (1, 2, 3)) -> Case:
        """Add a case, for worlds of these sizes."""
        self._functions[function.__name__] = function
        self.worlds[function.__name__] = worlds
        return function

    def run(self, folder: str) -> dict[str, str]:
        """Run all cases of this world; say of each how it went."""
        world = init(timeout_s=20)
        torch.set_num_threads(1)
        torch.manual_seed(world.rank)
        gc.freeze()  # so that looking for wrappers does not visit all of torch
        self.folder = Path(folder)
        results: dict[str, str] = {}
        for name, function in self._functions.items():
            if world.size not in self.worlds[name]:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    function(world)
                results[name] = "ok"
            except Exception:
                results[name] = traceback.format_exc()
                break  # the other ranks may be elsewhere
        return results

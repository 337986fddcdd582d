"""Cases that every rank of a world runs in the same order, and how each went."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

import coconet as cc
from coconet.runtime.world import World

__all__ = ["Case", "Cases"]

Case = Callable[[World], None]


class Cases:
    """A file's cases, by name; each says in its docstring where it was met first."""

    def __init__(self) -> None:
        self.worlds: dict[str, tuple[int, ...]] = {}
        self._functions: dict[str, Case] = {}

    def on(self, *ranks: int) -> Callable[[Case], Case]:
        """Add a case, for worlds of these sizes."""

        def add(function: Case) -> Case:
            assert "#" in (function.__doc__ or ""), "the docstring names an issue"
            self._functions[function.__name__] = function
            self.worlds[function.__name__] = ranks
            return function

        return add

    def run(self) -> dict[str, str]:
        """Run all cases of this world; say of each how it went."""
        world = cc.init(timeout_s=60)
        results: dict[str, str] = {}
        for name, function in self._functions.items():
            if world.size in self.worlds[name]:
                try:
                    function(world)
                    results[name] = "ok"
                except (Exception, pytest.fail.Exception):
                    results[name] = traceback.format_exc()
                    break  # the other ranks may be elsewhere
        return results

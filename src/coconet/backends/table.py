"""Every backend there is, imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["BACKENDS", "load_backend"]

BACKENDS = {
    "c": "coconet.backends.c:compile_plan",
    "eager": "coconet.backends.eager:EagerStep",
    "interpreter": "coconet.backends.interpreter:InterpretedStep",
}
"""Name -> what makes a step: of a plan and a World; of a program and a ProcessGroup;
of a program alone."""


def load_backend(name: str) -> Any:
    """Import a backend and return what makes its steps; ValueError if there is none."""
    if name not in BACKENDS:
        raise ValueError(f"the backends are {', '.join(BACKENDS)}, got {name!r}")
    module, _, attribute = BACKENDS[name].partition(":")
    return getattr(import_module(module), attribute)

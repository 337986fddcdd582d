"""Optimizer state as torch has it: whole tensors for each parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from coconet.torch.flat import Flat

__all__ = ["load_state", "whole_state"]


def whole_state(
    flats: Iterable[Flat], *, counts_steps: bool
) -> dict[torch.Tensor, dict[str, Any]]:
    """Return the state of every parameter that has taken a step.

    counts_steps  whether torch has "step" there
    """
    found: dict[torch.Tensor, dict[str, Any]] = {}
    for flat in flats:
        each = zip(flat.params, flat.ages, flat.state_of_each(), strict=True)
        for param, age, kept in each:
            if age and kept:
                step = {"step": torch.tensor(float(age))} if counts_steps else {}
                found[param] = {**step, **kept}
    return found


def load_state(flat: Flat, state: Mapping[torch.Tensor, Mapping[str, Any]]) -> None:
    """Load the state of a group's parameters; those without any begin anew."""
    given = [state.get(param, {}) for param in flat.params]
    flat.load_state(given)
    flat.ages = [_age(kept) for kept in given]
    flat.restore()


def _age(kept: Mapping[str, Any]) -> int:
    """Return how many steps made this state; without a count, whether any did."""
    if "step" in kept:
        return int(kept["step"])
    return int(any(value is not None for value in kept.values()))

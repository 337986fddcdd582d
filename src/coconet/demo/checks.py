"""What must hold after a run: the tolerances of the demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coconet.demo.facts import Facts

__all__ = ["FIRST", "FIRST_TOLERANCE", "Check", "checks", "differences"]

FIRST, FIRST_TOLERANCE = 50, 1e-3
LAST, LAST_TOLERANCE = 50, 2e-2


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold, and what was found."""

    what: str
    got: str
    need: str
    passed: bool


def checks(facts: Facts) -> list[Check]:
    """Return every check of a run, passed or not."""
    ours, reference = facts.ours, facts.reference
    found = [
        first_losses(ours.losses, reference.losses),
        last_losses(ours.losses, reference.losses),
        falling(ours.losses),
        same_bits("Every rank has the same parameters, bit for bit", ours.digests),
    ]
    if facts.is_exact:
        digests = ours.digests + reference.digests
        what = "The parameters are those of the interpreter, bit for bit"
        found.append(same_bits(what, digests))
    return found


def differences(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Return the relative difference of the losses at each step."""
    a, b = np.array(ours), np.array(reference)
    return (np.abs(a - b) / np.abs(b)).tolist()


def first_losses(ours: Sequence[float], reference: Sequence[float]) -> Check:
    """Check the loss of each of the first steps."""
    worst = float(np.max(differences(ours[:FIRST], reference[:FIRST])))
    return Check(
        f"The loss of each of the first {len(ours[:FIRST])} steps agrees",
        got=f"{worst:.1e} apart at most, relative",
        need=f"at most {FIRST_TOLERANCE:g}",
        passed=worst <= FIRST_TOLERANCE,
    )


def last_losses(ours: Sequence[float], reference: Sequence[float]) -> Check:
    """Check the mean loss of the last steps."""
    means = [float(np.mean(losses[-LAST:])) for losses in (ours, reference)]
    apart = abs(means[0] - means[1]) / abs(means[1])
    return Check(
        f"The mean loss of the last {len(ours[-LAST:])} steps agrees",
        got=f"{means[0]:.4f} and {means[1]:.4f}: {apart:.1e} apart, relative",
        need=f"at most {LAST_TOLERANCE:g}",
        passed=apart <= LAST_TOLERANCE,
    )


def falling(losses: Sequence[float]) -> Check:
    """Check that training does something: two sides that stand still agree as well."""
    tenth = max(1, len(losses) // 10)
    first, last = float(np.mean(losses[:tenth])), float(np.mean(losses[-tenth:]))
    return Check(
        "The loss falls",
        got=f"{first:.4f} to {last:.4f}",
        need=f"the mean of the last {tenth} steps below that of the first {tenth}",
        passed=last < first,
    )


def same_bits(what: str, digests: Sequence[str]) -> Check:
    """Check that all parameters are the same."""
    distinct = len(set(digests))
    return Check(what, f"{distinct} distinct", "1", distinct == 1)

"""Agreement on what a step does: which gradients there are, how large, how scaled."""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass, field

from coconet.torch.shared import Shared

__all__ = ["Vote"]

_HEAD = struct.Struct("??d")
"""Has inf, has news, scale; a byte for each parameter follows: has a gradient."""

MISSING = (
    "gradients that are None on this rank but not on others count as zeros: {} of {}"
)
SKIPPED = (
    "another rank found inf, so no rank takes this step; torch's GradScaler lowers the "
    "scale on that rank only, coconet.torch.amp.GradScaler on all"
)


@dataclass(slots=True)
class Vote:
    """What the ranks agreed on last.

    mine     whether each parameter had a gradient here; empty before the first vote
    present  whether it had one on any rank
    my_scale, scale  by which the loss, and so the gradient, was multiplied: here, and
             the least of all ranks
    """

    shared: Shared
    mine: list[bool] = field(default_factory=list[bool])
    present: list[bool] = field(default_factory=list[bool])
    my_scale: float = 1.0
    scale: float = 1.0
    warned: set[str] = field(default_factory=set[str])

    def has_news(self, mine: list[bool], scale: float, *, has_inf: bool) -> bool:
        """Return whether this rank must ask for a vote."""
        is_known = (mine, scale) == (self.mine, self.my_scale) and any(self.present)
        return has_inf or not is_known

    def hold(
        self, mine: list[bool], scale: float, *, has_inf: bool
    ) -> tuple[bool, bool]:
        """Vote, together with all ranks; return whether any has inf, and any has news.

        Raises RanksDisagree if a rank does something else meanwhile.
        """
        has_news = self.has_news(mine, scale, has_inf=has_inf)
        head = _HEAD.pack(has_inf, has_news, scale)
        rows = self.shared.rows(head + bytes(mine), "the optimizer's vote")
        infs, news, scales = zip(*map(_HEAD.unpack_from, rows), strict=True)
        grads = (row[_HEAD.size :] for row in rows)
        self.mine, self.my_scale = mine, scale
        self.present = [any(column) for column in zip(*grads, strict=True)]
        self.scale = min(scales)
        missing = sum(self.present) - sum(mine)
        if missing:
            self._warn(MISSING, missing, len(mine))
        if any(infs) and not has_inf:
            self._warn(SKIPPED)
        return any(infs), any(news)

    def forget(self) -> None:
        """Make the next step begin with a vote."""
        self.mine, self.present = [], []

    def _warn(self, text: str, *facts: int) -> None:
        """Warn once of each."""
        if text not in self.warned:
            self.warned.add(text)
            warnings.warn(text.format(*facts), stacklevel=2)

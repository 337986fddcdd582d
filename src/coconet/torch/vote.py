"""Agreement on what a step does: which gradients there are, and whether one is inf."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from coconet.torch.shared import Shared

__all__ = ["Vote"]

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
    """

    shared: Shared
    mine: list[bool] = field(default_factory=list[bool])
    present: list[bool] = field(default_factory=list[bool])
    warned: set[str] = field(default_factory=set[str])

    def has_news(self, mine: list[bool], *, has_inf: bool) -> bool:
        """Return whether this rank must ask for a vote."""
        return has_inf or mine != self.mine or not any(self.present)

    def hold(self, mine: list[bool], *, has_inf: bool) -> tuple[bool, bool]:
        """Vote, together with all ranks; return whether any has inf, and any has news.

        Raises RanksDisagree if a rank does something else meanwhile.
        """
        has_news = self.has_news(mine, has_inf=has_inf)
        *counts, infs, news = self.shared.sum([*mine, has_inf, has_news])
        self.mine, self.present = mine, [count > 0 for count in counts]
        missing = sum(self.present) - sum(mine)
        if missing:
            self._warn(MISSING, missing, len(mine))
        if infs and not has_inf:
            self._warn(SKIPPED)
        return infs > 0, news > 0

    def forget(self) -> None:
        """Make the next step begin with a vote."""
        self.mine, self.present = [], []

    def _warn(self, text: str, *facts: int) -> None:
        """Warn once of each."""
        if text not in self.warned:
            self.warned.add(text)
            warnings.warn(text.format(*facts), stacklevel=2)

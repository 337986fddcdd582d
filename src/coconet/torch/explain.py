"""What an optimizer did with its parameters, its programs and the last step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from coconet.torch.flat import Bound, Flat

__all__ = ["Explanation", "GroupExplanation"]


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """One parameter group.

    num_parameters, num_elements  of those that take part
    program       the scheduled program, as text
    steps         of the schedule, in order
    state         names of the optimizer state
    state_bytes   of it on this rank
    staged_bytes  copied at every call because a buffer is not in symmetric memory
    copied_bytes  copied since the last step but one, because gradients or parameters
                  were not in their place
    """

    num_parameters: int
    num_elements: int
    program: str
    steps: tuple[str, ...]
    state: tuple[str, ...]
    state_bytes: int
    staged_bytes: int
    copied_bytes: int

    @classmethod
    def of(cls, flat: Flat, bound: Bound, copied_bytes: int) -> Self:
        """Describe a group."""
        return cls(
            num_parameters=len(flat.params),
            num_elements=flat.numel,
            program=str(bound.schedule.result),
            steps=tuple(str(step) for step in bound.schedule.steps),
            state=tuple(flat.states),
            state_bytes=sum(state.own.nbytes for state in flat.states.values()),
            staged_bytes=bound.call.staged_bytes,
            copied_bytes=copied_bytes,
        )

    def __str__(self) -> str:
        """Return a few lines."""
        whole = len(self.state) * self.num_elements * 4
        state = f"{', '.join(self.state)}: {self.state_bytes} of {whole} bytes are here"
        copied = f"{self.copied_bytes} bytes of gradients and parameters"
        if self.copied_bytes:
            copied += "; zero_grad(set_to_none=False) keeps gradients in their place"
        lines = [
            f"{self.num_parameters} parameters, {self.num_elements} elements",
            f"  state    {state if self.state else 'none'}",
            f"  copied   {copied}",
            f"  staged   {self.staged_bytes} bytes",
            *(f"  applied  {step}" for step in self.steps),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """An optimizer; print it.

    num_calls   in the last step, in which all ranks meet: one for each group, more to
                clip, to agree on missing gradients, and for parameters that skip steps
    num_frozen  parameters that are left where they are
    """

    optimizer: str
    ranks: int
    reduction: str
    max_norm: float | None
    num_calls: int
    num_frozen: int
    groups: tuple[GroupExplanation, ...]

    def __str__(self) -> str:
        """Return a few lines for each group."""
        lines = [
            f"{self.optimizer} on {self.ranks} ranks, {self.reduction} of gradients; "
            f"{self.num_calls} calls in the last step; {self.num_frozen} frozen"
        ]
        if self.max_norm is not None:
            lines.append(
                f"clipped to norm {self.max_norm:g}: one call per group reduces the "
                "gradients, one adds the ranks' squares, then the step"
            )
        lines += [
            f"group {number}: {group}" for number, group in enumerate(self.groups)
        ]
        return "\n".join(lines)

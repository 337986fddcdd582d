"""What an optimizer did with its parameters, its programs and the last step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from coconet.schedule import Schedule
from coconet.torch.flat import Bound, Flat
from coconet.tuning.measure import knobs_text
from coconet.tuning.report import Report

__all__ = ["Explanation", "GroupExplanation"]


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """Parameters of one group and one dtype.

    group         its number
    dtype, grad_dtype  of the parameters and of the gradients that ranks exchange
    num_parameters, num_elements  of those that take part
    program       the scheduled program, as text: of the last step, or the next one
    schedule      of the program; `tune=` takes it, or a file of its to_json()
    steps         of the schedule, in order
    why           it is this schedule: what was tuned and how long that took, or why not
    knobs         numbers it runs with that differ from the defaults
    report        everything that the tuner tried; None: it was not asked
    state         names of the optimizer state
    state_bytes   of it on this rank
    whole_state_bytes  of it on all ranks, each piece once
    staged_bytes  copied at every call because a buffer is not in symmetric memory
    copied_bytes  copied since the last step but one, because gradients or parameters
                  were not in their place
    """

    group: int
    dtype: str
    grad_dtype: str
    num_parameters: int
    num_elements: int
    program: str
    schedule: Schedule
    steps: tuple[str, ...]
    why: str
    knobs: str
    report: Report | None
    state: tuple[str, ...]
    state_bytes: int
    whole_state_bytes: int
    staged_bytes: int
    copied_bytes: int

    @classmethod
    def of(cls, flat: Flat, bound: Bound, copied_bytes: int) -> Self:
        """Describe a group."""
        states = [state.own for state in flat.states.values()]
        return cls(
            group=flat.group,
            dtype=flat.kind.dtype.name,
            grad_dtype=flat.kind.grad_dtype.name,
            num_parameters=len(flat.params),
            num_elements=flat.numel,
            program=str(bound.schedule.result),
            schedule=bound.schedule,
            steps=tuple(str(step) for step in bound.schedule.steps),
            why=bound.choice.why,
            knobs=knobs_text(bound.choice.step.knobs),
            report=bound.choice.report,
            state=tuple(flat.states),
            state_bytes=sum(own.nbytes for own in states),
            whole_state_bytes=sum(own.itemsize * flat.numel for own in states),
            staged_bytes=bound.call.staged_bytes,
            copied_bytes=copied_bytes,
        )

    def __str__(self) -> str:
        """Return a few lines."""
        state = (
            f"{', '.join(self.state)}: "
            f"{self.state_bytes} of {self.whole_state_bytes} bytes are here"
        )
        copied = f"{self.copied_bytes} bytes of gradients and parameters"
        if self.copied_bytes:
            copied += "; zero_grad(set_to_none=False) keeps gradients in their place"
        lines = [
            f"group {self.group}: {self.num_parameters} parameters, "
            f"{self.num_elements} elements, {self.dtype}, gradients {self.grad_dtype}",
            f"  state    {state if self.state else 'none'}",
            f"  copied   {copied}",
            f"  staged   {self.staged_bytes} bytes",
            f"  chosen   {self.why}; knobs: {self.knobs or 'the defaults'}",
            *(f"  applied  {step}" for step in self.steps),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """An optimizer; print it.

    num_calls   in the last step, in which all ranks meet: one for each of `groups`,
                more to clip, to agree on missing gradients, and for parameters that
                skip steps
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
        return "\n".join([*lines, *(str(group) for group in self.groups)])

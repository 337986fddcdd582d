"""Schedules as values, and drafts to make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from coconet.errors import ScheduleError
from coconet.ir import FLAT, Cut, Fusion, Program, Rewrite, Value
from coconet.ir.location import user_line
from coconet.ir.verify import verify_program
from coconet.schedule.dead import Dead
from coconet.schedule.fuse import Fuse
from coconet.schedule.legality import find
from coconet.schedule.reorder import Reorder
from coconet.schedule.slice_state import SliceState
from coconet.schedule.split import Split
from coconet.schedule.transform import Transform

__all__ = ["Draft", "Schedule"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A program and the steps that transform it: print it, compare it, replay it.

    program  as the user wrote it
    steps    in order
    result   the transformed program
    """

    program: Program
    steps: tuple[Transform, ...]
    result: Program

    @staticmethod
    def replay(program: Program, steps: Iterable[Transform]) -> Schedule:
        """Apply steps to a program, each checked and its result verified.

        Raises ScheduleError at the first step that is not legal.
        """
        draft = Draft(program)
        for step in steps:
            draft.step(step)
        return draft.schedule

    def to_json(self) -> str:
        """Return the steps as JSON, to be kept beside the program."""
        from coconet.schedule.json import schedule_to_json

        return schedule_to_json(self)

    @staticmethod
    def from_json(program: Program, text: str | bytes) -> Schedule:
        """Apply steps that `to_json` gave; each is checked again.

        Raises ScheduleError if the text is not a schedule, or a step is not legal.
        """
        from coconet.schedule.json import schedule_from_json

        return schedule_from_json(program, text)

    def __eq__(self, other: object) -> bool:
        """Whether both transform the same program by the same steps."""
        if not isinstance(other, Schedule):
            return NotImplemented
        return self.program is other.program and self.steps == other.steps

    def __hash__(self) -> int:
        """Hash what equality compares."""
        return hash((id(self.program), self.steps))

    def __str__(self) -> str:
        """Return the steps, one per line."""
        lines = [f"schedule of {self.program.name}"]
        return "\n".join(lines + [f"  {step}" for step in self.steps])


Handle = Any
"""A Value, a tensor of the dsl, a name, a Fusion, or a tuple or list of handles."""


@dataclass(frozen=True, slots=True)
class _State:
    program: Program
    moved: dict[Value, tuple[Value, ...]]


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _verb(
    method: Callable[Concatenate[Draft, _P], _T],
) -> Callable[Concatenate[Draft, _P], _T]:
    """Let a method's ScheduleError name the user's line that called it."""

    @wraps(method)
    def call(draft: Draft, *args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return method(draft, *args, **options)
        except ScheduleError as error:
            error.step_at = error.step_at or str(user_line() or "")
            raise

    return call


class Draft:
    """A schedule in the making: its verbs append steps.

    Handles from before a step stay good: they mean what became of their value.
    """

    def __init__(self, program: Program) -> None:
        """Start with no step."""
        self._original = program
        self._steps: list[Transform] = []
        first = {old: (new,) for old, new in program.handles.items()}
        self._states = [_State(program, first)]

    @property
    def program(self) -> Program:
        """The program as transformed so far."""
        return self._states[-1].program

    @property
    def schedule(self) -> Schedule:
        """The frozen value."""
        return Schedule(self._original, tuple(self._steps), self.program)

    @_verb
    def step(self, step: Transform) -> Rewrite:
        """Check, apply and record a step, and verify its result.

        Raises ScheduleError if it is not legal; the draft is then unchanged.
        """
        state = self._states[-1]
        step.check(state.program)
        rewrite = step.apply(state.program)
        verify_program(rewrite.program)
        moved = {
            handle: tuple(
                new for value in now for new in rewrite.moved.get(value, (value,))
            )
            for handle, now in state.moved.items()
        }
        for value, now in rewrite.moved.items():
            moved.setdefault(value, now)
        self._states.append(_State(rewrite.program, moved))
        self._steps.append(step)
        return rewrite

    @_verb
    def undo(self) -> None:
        """Take the last step back; raises ScheduleError if there is none."""
        if not self._steps:
            raise ScheduleError("there is no step to undo", got="an empty schedule")
        self._steps.pop()
        self._states.pop()

    @_verb
    def split(self, target: Handle, by: Cut = FLAT) -> tuple[Value, Value]:
        """Replace an all-reduce by a reduce-scatter and an all-gather.  See Split."""
        ((part,), (whole,)) = self.step(Split(self._name(target, "split"), by)).made
        return part, whole

    @_verb
    def reorder(
        self, gather: Handle, outs: Handle
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Compute `outs`, one or more, on slices; gather afterwards.  See Reorder."""
        names = tuple(value.name for value in self._find(outs))
        step = Reorder(self._name(gather, "reorder"), names)
        region, tail = self.step(step).made
        return region, tail

    @_verb
    def fuse(self, *parts: Handle) -> tuple[Value, ...]:
        """Compute all these values in one kernel.  See Fuse."""
        found = self._find(list(parts))
        inside = [value for value in self.program.values if value in found]
        names = tuple(value.name for value in inside if not value.type.is_scalar)
        (members,) = self.step(Fuse(names)).made
        return members

    @_verb
    def slice_state(self, *targets: Handle) -> tuple[Value, ...]:
        """Keep Replicated inputs in pieces; returns the inputs.  See SliceState."""
        made: list[Value] = []
        for target in targets:
            step = SliceState(self._name(target, "slice_state"))
            made += self.step(step).made[0]
        return tuple(made)

    @_verb
    def dead(self, *targets: Handle) -> None:
        """Drop values that nobody needs.  See Dead."""
        for target in targets:
            for name in [value.name for value in self._some(target, "dead")]:
                self.step(Dead(name))

    def compile(self, **options: Any) -> Any:
        """Compile the schedule as it is now.  See coconet.compile."""
        import coconet.api

        return coconet.api.compile(self.schedule, **options)

    def verify(self, **options: Any) -> Any:
        """Check that the schedule keeps the program's bits.  See coconet.verify."""
        import coconet.api

        return coconet.api.verify(self.schedule, **options)

    def __str__(self) -> str:
        """Return the program as transformed so far."""
        return str(self.program)

    def _some(self, handle: Handle, verb: str) -> list[Value]:
        values = self._find(handle)
        if not values:
            raise ScheduleError(
                f"{verb} got a handle to what is no longer part of the program",
                got=handle,
                need="a value of the program as it is now",
            )
        return values

    def _name(self, handle: Handle, verb: str) -> str:
        values = self._find(handle)
        if len(values) != 1:
            raise ScheduleError(
                f"{verb} takes one value", got=f"{len(values)} values", need="one"
            )
        return values[0].name

    def _find(self, handle: Handle) -> list[Value]:
        """Return the values of the present program that a handle means."""
        if isinstance(handle, tuple | list):
            parts = cast("Sequence[Handle]", handle)
            found = [value for part in parts for value in self._find(part)]
            return list(dict.fromkeys(found))
        if isinstance(handle, Fusion):
            return self._find(list(handle.members))
        if isinstance(handle, str):
            return [find(self.program, handle, "the schedule")]
        value = getattr(handle, "value", handle)
        if not isinstance(value, Value):
            raise TypeError(f"not a value of a program: {handle!r}")
        now = self._states[-1].moved.get(value, (value,))
        for found in now:
            if found not in self.program:
                raise ScheduleError(
                    f"{value.name!r} is not part of program {self.program.name!r}",
                    got=value,
                    need="a value of this program, or one it was made from",
                )
        return list(now)

"""Dead: drop what nobody needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from coconet.errors import ScheduleError
from coconet.ir import Program, Rewrite, Rewriter, Value, said
from coconet.schedule.legality import find
from coconet.schedule.transform import Transform, name_of

__all__ = ["Dead"]


@dataclass(frozen=True, slots=True)
class Dead(Transform):
    """Drop a value that no output, effect or other value needs.

    Before
        s = all_gather(x)
        y = x * 2.0

    After
        y = x * 2.0

    Legal when  nothing needs it
    Keeps       every output and effect
    Returns     nothing
    Raises      ScheduleError
    Source      CoCoNet, ASPLOS'22 (dead)
    """

    name: ClassVar[str] = "dead"

    target: str

    def check(self, program: Program) -> None:
        """Raise ScheduleError if something needs the value."""
        value = find(program, self.target, self.name)
        if value in program.inputs or program.is_live(value):
            needed = program.users(value)
            dead = tuple(_dead_values(program))
            raise ScheduleError(
                f"{said(value)!r} is needed",
                got=f"used by {said(*needed)}" if needed else "an input or output",
                need="a value that nobody reads",
                fix=f"one of {name_of(dead)}" if dead else "no step: all is needed",
                at=value.at,
            )

    def apply(self, program: Program) -> Rewrite:
        """Return the program without the value."""
        rewriter = Rewriter(program, made_by=self.name)
        rewriter.drop(program[self.target])
        return rewriter.finish()

    @classmethod
    def candidates(cls, program: Program) -> Iterator[Self]:
        """Yield every value that nobody needs."""
        yield from (cls(value.name) for value in _dead_values(program))


def _dead_values(program: Program) -> Iterator[Value]:
    return (value for value in program.values if not program.is_live(value))

"""Programs and schedules read from what they print as; each step is checked again."""

from __future__ import annotations

from dataclasses import replace

from coconet.dsl.expression import read_call
from coconet.dsl.parse import read_program
from coconet.errors import ProgramError, ScheduleError
from coconet.ir import Location, Program
from coconet.schedule.fuse import Fuse
from coconet.schedule.schedule import Draft, Schedule
from coconet.schedule.table import TRANSFORMS
from coconet.schedule.transform import Transform

__all__ = ["parse_program", "parse_schedule"]


def parse_program(text: str, *, file: str = "<text>") -> Program:
    """Return the program that prints as this text: `same_program` holds.

    file  what messages call the text

    Raises ProgramError, with file and line, where the text is wrong; ScheduleError if a
    kernel in it is not legal.
    """
    program = read_program(text, file=file)
    for fusion in program.fusions:
        others = tuple(other for other in program.fusions if other is not fusion)
        names = tuple(member.name for member in fusion.members)
        Fuse(names).check(replace(program, fusions=others))
    return program


def parse_schedule(program: Program, text: str, *, file: str = "<text>") -> Schedule:
    """Apply the steps of a schedule that prints as this text to its program.

    file  what messages call the text

    Raises ScheduleError, with file and line, if the text is for another program, or a
    line is no step or not a legal one.
    """
    first, *lines = text.splitlines() or [""]
    if first.split() != ["schedule", "of", program.name]:
        need = f"schedule of {program.name}"
        raise ScheduleError("this is no schedule of the program", got=first, need=need)
    draft = Draft(program)
    for number, line in enumerate(lines, start=2):
        try:
            if line.strip():
                draft.step(_step(line))
        except ScheduleError as error:
            error.step_at = str(Location(file, number))
            raise
    return draft.schedule


def _step(line: str) -> Transform:
    try:
        step: Transform = read_call(line, {verb.__name__: verb for verb in TRANSFORMS})
    except ProgramError as error:
        what = "this line is no step"
        raise ScheduleError(what, got=error.got, need=error.need) from None
    return step

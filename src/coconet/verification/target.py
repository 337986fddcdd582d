"""Finding the program or schedule that FILE:PROGRAM names."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path

from coconet.errors import ProgramError
from coconet.ir import Program
from coconet.schedule import Draft, Schedule
from coconet.schedule.library import library
from coconet.schedule.text import parse_program

__all__ = ["load_schedules", "split_target"]


def split_target(target: str) -> tuple[Path, str]:
    """Return path and name of FILE:PROGRAM.

    Raises ProgramError if there is no colon or no such file.
    """
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier() or not Path(file).is_file():
        raise ProgramError(
            "a program is named by FILE:PROGRAM",
            got=target,
            need="a Python file, a colon, and a variable that holds a program; or the "
            "text of a program, and its name",
            fix="train.py:adam, or adam.txt:adam",
        )
    return Path(file), name


def load_schedules(path: Path, name: str) -> tuple[Program, dict[str, Schedule]]:
    """Import a Python file and return a program of it with its schedules, by name.

    The variable holds a program, whose schedules are the library's, or a schedule or
    draft, which stands beside its program as written.  What the file prints goes to
    stderr.  Any other file holds the text of one program.
    Raises ProgramError if the variable is not there or neither, or the text is wrong;
    whatever the file's own code raises.
    """
    found = _variable(path, name) if path.suffix == ".py" else _text(path, name)
    if isinstance(found, Draft):
        found = found.schedule
    if isinstance(found, Schedule):
        as_written = found.program.schedule().schedule
        return found.program, {"as_written": as_written, name: found}
    return found, library(found)


def _text(path: Path, name: str) -> Program:
    try:
        program = parse_program(path.read_text(), file=str(path))
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path.name} is no text", got=error, need="UTF-8") from None
    if program.name != name:
        raise ProgramError(
            f"{path.name} holds another program", got=name, need=program.name
        )
    return program


def _variable(path: Path, name: str) -> Program | Schedule | Draft:
    module_name = f"coconet_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ProgramError("not a Python file", got=path, need="a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    with contextlib.redirect_stdout(sys.stderr):
        spec.loader.exec_module(module)
    found = getattr(module, name, None)
    kinds = Program, Schedule, Draft
    if not isinstance(found, kinds):
        there = [n for n, value in vars(module).items() if isinstance(value, kinds)]
        raise ProgramError(
            f"{path.name} has no program or schedule {name!r}",
            got=type(found).__name__,
            need=", ".join(there) or "a variable made by cc.program(..)",
        )
    return found

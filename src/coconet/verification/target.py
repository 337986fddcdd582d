"""Finding the program that FILE:PROGRAM names."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from coconet.errors import ProgramError
from coconet.ir import Program

__all__ = ["load_program", "split_target"]


def split_target(target: str) -> tuple[Path, str]:
    """Return path and name of FILE:PROGRAM.

    Raises ProgramError if there is no colon or no such file.
    """
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier() or not Path(file).is_file():
        raise ProgramError(
            "a program is named by FILE:PROGRAM",
            got=target,
            need="a Python file, a colon, and a variable that holds a program",
            fix="src/coconet/workloads/optimizers.py:adam",
        )
    return Path(file), name


def load_program(path: Path, name: str) -> Program:
    """Import a Python file and return one of its programs.

    Raises ProgramError if the variable is not there or not a program; whatever the
    file's own code raises.
    """
    module_name = f"coconet_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ProgramError("not a Python file", got=path, need="a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not isinstance(found, Program):
        programs = [
            n for n, value in vars(module).items() if isinstance(value, Program)
        ]
        raise ProgramError(
            f"{path.name} has no program {name!r}",
            got=type(found).__name__,
            need=", ".join(programs) or "a variable made by cc.program(..)",
        )
    return found

"""What to tune: a program, its sizes, and how long; checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coconet.ir import Program
from coconet.options import checked_count, checked_seconds

__all__ = ["Request", "checked_sizes"]


@dataclass(frozen=True, slots=True)
class Request:
    """A tuning to be done.

    sizes        numbers of the program's symbolic dims
    slice_state  inputs that every candidate keeps in pieces
    time_box_s   seconds after which no turn begins, once every candidate had one
    limit        of schedules to explore
    scalars      numbers to time with, by the name of a scalar input
    Raises       TypeError, ValueError: an option that cannot be meant
    """

    program: Program
    sizes: Mapping[str, int]
    slice_state: tuple[str, ...]
    time_box_s: float
    limit: int
    scalars: Mapping[str, float]

    @staticmethod
    def of(
        program: Any,
        *,
        sizes: Mapping[str, Any],
        slice_state: Sequence[str] = (),
        time_box_s: Any = 8.0,
        limit: Any = 64,
        scalars: Mapping[str, Any] | None = None,
    ) -> Request:
        """Check what a user gave."""
        if not isinstance(program, Program):
            raise TypeError(f"tune takes a program, got {type(program).__name__}")
        given = dict(scalars or {})
        known = {value.name for value in program.scalars}
        if unknown := given.keys() - known:
            raise ValueError(f"no scalar of {program.name!r}: {sorted(unknown)}")
        return Request(
            program,
            checked_sizes(program, sizes),
            _checked_names(program, slice_state),
            checked_seconds("time_box_s", time_box_s),
            checked_count("limit", limit),
            given,
        )

    @property
    def text(self) -> str:
        """All of it, for the other ranks to compare; one fact per line."""
        facts = {
            "program": self.program.name,
            "sizes": dict(self.sizes),
            "slice_state": self.slice_state,
            "time_box_s": self.time_box_s,
            "limit": self.limit,
            "scalars": dict(self.scalars),
        }
        lines = [f"{name} = {fact}" for name, fact in facts.items()]
        return "\n".join([*lines, str(self.program)])


def checked_sizes(program: Program, sizes: Mapping[str, Any]) -> dict[str, int]:
    """Return a positive number for each symbolic dim of a program, in its order.

    Raises TypeError, ValueError.
    """
    names = [dim.name for dim in program.dims]
    if unknown := [name for name in sizes if name not in names]:
        raise ValueError(
            f"{program.name!r} has no dim {', '.join(unknown)}; "
            f"its dims are {', '.join(names) or 'all numbers'}"
        )
    if missing := [name for name in names if name not in sizes]:
        raise ValueError(
            f"the size of {', '.join(missing)} is not given; pass {missing[0]}=.."
        )
    return {name: checked_count(name, sizes[name]) for name in names}


def _checked_names(program: Program, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"slice_state is a list of names, got {names!r}")
    known = [value.name for value in program.tensors]
    for name in names:
        if name not in known:
            raise ValueError(
                f"{program.name!r} has no tensor {name!r}; it has {', '.join(known)}"
            )
    return tuple(names)

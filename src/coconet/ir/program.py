"""Programs: what is computed, in one order, with its outputs and effects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coconet.errors import ProgramError
from coconet.ir.group import Group
from coconet.ir.shape import Dim
from coconet.ir.value import Operation, Value

if TYPE_CHECKING:
    from coconet.schedule import Draft

__all__ = ["Fusion", "Program", "same_program"]


@dataclass(frozen=True, slots=True)
class Fusion:
    """Values that one kernel computes, in program order."""

    name: str
    members: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A distributed computation; immutable.

    name     for messages and kernels
    inputs   what the caller passes: tensors, then scalars
    values   everything computed, each after its inputs
    outputs  what the caller gets back
    effects  updates of inputs that the caller will see
    fusions  which values share a kernel; a value in none has its own
    handles  what the user wrote -> the value of this program that stands for it

    Raises ProgramError from `program[name]` if there is no such value.
    """

    name: str
    inputs: tuple[Value, ...]
    values: tuple[Value, ...]
    outputs: tuple[Value, ...]
    effects: tuple[Value, ...]
    fusions: tuple[Fusion, ...] = ()
    handles: Mapping[Value, Value] = field(
        default_factory=dict[Value, Value], repr=False
    )
    _by_name: dict[str, Value] = field(init=False, repr=False)
    _users: dict[Value, tuple[Value, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the values by name and by use."""
        everything = (*self.inputs, *self.values)
        users: dict[Value, list[Value]] = {value: [] for value in everything}
        for value in self.values:
            for source in dict.fromkeys(value.inputs):
                users.setdefault(source, []).append(value)
        by_name = {value.name: value for value in everything}
        object.__setattr__(self, "_by_name", by_name)
        frozen = {value: tuple(using) for value, using in users.items()}
        object.__setattr__(self, "_users", frozen)

    def __getitem__(self, name: str) -> Value:
        """Return the value of this name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise ProgramError(
                f"program {self.name!r} has no value {name!r}",
                got=name,
                need="one of " + ", ".join(self._by_name),
            ) from None

    def __contains__(self, value: object) -> bool:
        """Return whether this very value is part of the program."""
        return isinstance(value, Value) and value in self._users

    def users(self, value: Value) -> tuple[Value, ...]:
        """Return the values that read this one, in program order."""
        return self._users[value]

    def is_live(self, value: Value) -> bool:
        """Return whether an output, an effect or another value needs it."""
        needed = bool(self._users[value])
        return needed or value in self.outputs or value in self.effects

    def values_of(self, op: type[Operation]) -> Iterator[Value]:
        """Yield the computed values made by this class of op."""
        return (value for value in self.values if isinstance(value.op, op))

    def fusion_of(self, value: Value) -> Fusion | None:
        """Return the fusion that computes this value, or None."""
        return next((f for f in self.fusions if value in f.members), None)

    @property
    def tensors(self) -> tuple[Value, ...]:
        """The inputs that are not scalars."""
        return tuple(value for value in self.inputs if not value.type.is_scalar)

    @property
    def scalars(self) -> tuple[Value, ...]:
        """The inputs that are scalars."""
        return tuple(value for value in self.inputs if value.type.is_scalar)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Every group that a tensor lives on, in order of first use."""
        found = (value.type.group for value in (*self.inputs, *self.values))
        return tuple(dict.fromkeys(group for group in found if group is not None))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Every symbolic extent of the inputs, in order of first use."""
        extents = (extent for value in self.inputs for extent in value.type.shape)
        return tuple(dict.fromkeys(e for e in extents if isinstance(e, Dim)))

    def schedule(self) -> Draft:
        """Start a schedule of this program."""
        from coconet.schedule import Draft

        return Draft(self)

    def compile(self, **options: Any) -> Any:
        """Compile the program as written.  See coconet.compile."""
        import coconet.api

        return coconet.api.compile(self, **options)

    def tune(self, **options: Any) -> Any:
        """Find the fastest equal program on this machine.  See coconet.tune."""
        import coconet.api

        return coconet.api.tune(self, **options)

    def __str__(self) -> str:
        """Return the program in the language it was written in."""
        from coconet.ir.text import program_text

        return program_text(self)


def same_program(a: Program, b: Program) -> bool:
    """Whether two programs are equal, names and all.

    Lines of source, and the order of values that do not read each other, do not count.
    """
    return _facts(a) == _facts(b)


def _facts(program: Program) -> tuple[Any, ...]:
    """Return what makes a program; an op's text tells 0.0 from -0.0, and NaN is one."""
    return (
        program.name,
        [(value.name, value.type) for value in program.inputs],
        {
            value.name: (repr(value.op), [x.name for x in value.inputs], value.type)
            for value in program.values
        },
        [value.name for value in program.outputs],
        {value.name for value in program.effects},
        {f.name: {value.name for value in f.members} for f in program.fusions},
    )

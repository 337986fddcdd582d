"""From the tensors a user made to a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from coconet.dsl.tensor import Tensor
from coconet.errors import ProgramError
from coconet.ir import Local, Program, Value, needed_by
from coconet.ir.names import is_name
from coconet.ir.verify import verify_program
from coconet.ops import Input, Literal, Update

__all__ = ["check_outputs", "program"]


def program(
    name: str, *, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Program:
    """Make a program from what it reads and what it computes.

    outputs  values to return; an update among them is an effect, not a returned value
    inputs   in the order the caller passes them; scalars not listed are appended

    Raises ProgramError: an input is not declared, unused or listed twice, a tensor is
    updated twice, an output is an input, or the program has no output; TypeError for
    what is no tensor of a program.
    """
    if not is_name(name):
        raise ValueError(f"a program's name is an identifier, got {name!r}")
    wanted = _values(name, outputs)
    found = needed_by(wanted)
    given = _values(name, inputs)
    arguments = _arguments(name, given, found)
    check_outputs(name, wanted, found)
    computed = [value for value in found if not isinstance(value.op, Input)]
    named = _with_names(arguments, computed)
    result = Program(
        name=name,
        inputs=tuple(named[value] for value in arguments),
        values=tuple(named[value] for value in computed),
        outputs=tuple(named[v] for v in wanted if not isinstance(v.op, Update)),
        effects=tuple(named[v] for v in computed if isinstance(v.op, Update)),
        handles=named,
    )
    verify_program(result)
    _warn_local_outputs(result)
    return result


def _values(name: str, tensors: Any) -> list[Value]:
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"program {name!r} takes lists of tensors, as outputs=[y]; got {tensors!r}"
        )
    tensors = cast("Sequence[Any]", tensors)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"program {name!r} lists tensors, got {tensor!r}")
    return [tensor.value for tensor in tensors]


def _arguments(name: str, given: list[Value], found: list[Value]) -> list[Value]:
    used = [value for value in found if isinstance(value.op, Input)]
    for value in given:
        if not isinstance(value.op, Input):
            raise ProgramError(
                f"an input of program {name!r} is not declared by tensor or scalar",
                got=value,
                need="cc.tensor(..) or cc.scalar(..)",
                fix="list what the caller passes",
                at=value.at,
            )
        if given.count(value) > 1 or value not in used:
            problem, also = "not used", ", or list its update in outputs"
            if given.count(value) > 1:
                problem, also = "listed twice", ""
            raise ProgramError(
                f"input {value.name!r} of program {name!r} is {problem}",
                got=", ".join(v.name for v in given),
                need="each tensor and scalar that the outputs need, once",
                fix=f"take {value.name} off inputs=[..]{also}",
                at=value.at,
            )
    missing = [v for v in used if v not in given and not v.type.is_scalar]
    if missing:
        raise ProgramError(
            f"program {name!r} reads a tensor that is not among its inputs",
            got=", ".join(map(str, missing)),
            need="every tensor it reads in inputs=[..]",
            fix=f"add {missing[0].name} to inputs",
            at=missing[0].at,
        )
    tensors = [value for value in given if not value.type.is_scalar]
    scalars = [value for value in given if value.type.is_scalar]
    return [*tensors, *scalars, *(v for v in used if v not in given)]


def check_outputs(name: str, wanted: list[Value], found: list[Value]) -> None:
    """Raise ProgramError unless what a program gives and updates makes sense.

    found  every value that `wanted` needs
    """
    if not wanted:
        raise ProgramError(
            f"program {name!r} has no output and no effect",
            got="outputs=[]",
            need="a value to compute",
            fix="outputs=[y], or an update",
        )
    for value in wanted:
        if wanted.count(value) > 1:
            raise ProgramError(
                f"an output of program {name!r} is listed twice",
                got=value,
                need="each output once",
                fix="use the result twice after the call",
                at=value.at,
            )
        if isinstance(value.op, Input | Literal) or value.type.is_scalar:
            raise ProgramError(
                f"an output of program {name!r} is not a computed tensor",
                got=value,
                need="the result of an operation on tensors",
                fix="return what is computed from it",
                at=value.at,
            )
    updates = [value for value in found if isinstance(value.op, Update)]
    targets = [update.inputs[0] for update in updates]
    for target in targets:
        if not isinstance(target.op, Input):
            raise ProgramError(
                "update writes an input of the program",
                got=target,
                need="a tensor declared by cc.tensor(..)",
                fix="return the value: list it in outputs",
                at=target.at,
            )
        if targets.count(target) > 1:
            raise ProgramError(
                f"{target.name!r} is updated twice in program {name!r}",
                got=f"{targets.count(target)} updates",
                need="one update of each tensor",
                fix="compute both changes in one expression",
                at=[u for u in updates if u.inputs[0] is target][-1].at,
            )


def _with_names(arguments: list[Value], computed: list[Value]) -> dict[Value, Value]:
    """Give every value a unique name; the user's, or _1, _2 .. for the rest."""
    taken: set[str] = set()
    for value in arguments:
        if value.name in taken:
            raise ProgramError(
                f"two inputs are named {value.name!r}",
                got=", ".join(v.name for v in arguments),
                need="a name for each",
                fix="rename one",
                at=value.at,
            )
        taken.add(value.name)
    named: dict[Value, Value] = {value: value for value in arguments}
    numbers: dict[str, int] = {}
    for value in computed:
        base = unique = _base_name(value)
        while not unique or unique in taken:
            number = numbers.get(base, 1 if base else 0) + 1
            numbers[base] = number
            unique = f"{base}_{number}"
        taken.add(unique)
        inputs = tuple(named[source] for source in value.inputs)
        named[value] = replace(value, name=unique, inputs=inputs)
    return named


def _base_name(value: Value) -> str:
    if isinstance(value.op, Literal):
        return ""
    if isinstance(value.op, Update) and not value.name:
        return f"{value.inputs[0].name}_new"
    name = value.name.lstrip("_")
    return name if is_name(name) else ""


def _warn_local_outputs(result: Program) -> None:
    import warnings

    for value in result.outputs:
        if isinstance(value.type.layout, Local):
            warnings.warn(
                f"output {value.name!r} of program {result.name!r} is Local: "
                "every rank gets a different value",
                stacklevel=3,
            )

"""A program as a function of this process, together with the same on every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch.distributed
from torch import Tensor

from coconet.backends.arguments import Signature, call_scalars
from coconet.backends.eager.place import Operand, Place
from coconet.backends.eager.table import CALLS
from coconet.backends.eager.tensors import (
    as_array,
    as_tensor,
    check_argument,
    one_device,
    own,
    share_memory,
    storage,
    write,
)
from coconet.errors import GroupError, UnsupportedError
from coconet.ir import Program, Value, i64
from coconet.ops import Elementwise, Input, Literal, Op
from coconet.plan import ScalarExpr
from coconet.plan.evaluate import ScalarEvaluator
from coconet.settings import launch

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["BoundEager", "EagerStep"]

_distributed: Any = torch.distributed  # it annotates few parameters

Step = tuple[Value, Callable[..., Tensor], tuple[Value, ...]]
"""A value, how it is made, and the values that nobody needs afterwards."""


class EagerStep:
    """A program that runs op by op: call it with arrays or tensors, on every rank.

    Fusions and overlap are ignored; layouts and collectives are the program's.
    Numerics are "fast", not exact: the engine adds the ranks in an order of its own,
    which shows with three ranks or more, and a cast from f64 to f16 goes through f32.
    Otherwise values have the interpreter's bits.

    Fields  program  what runs
            group    the process group; None: torch's default one
    """

    def __init__(self, program: Program, group: ProcessGroup | None = None) -> None:
        """Look up a call for every op; without torch.distributed, for one rank.

        Raises GroupError if the program is for other groups or another size, or this
        process is not in the group; UnsupportedError if an op has no call.
        """
        self.program = program
        self.group = group
        self.rank, self.ranks = _position(group)
        _check_group(program, self.ranks)
        self.signature = Signature.of_program(program, self.rank, self.ranks)
        self._steps = _steps(program)
        self._scalars = _scalar_exprs(program)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run on this rank's arguments: tensors, then scalars, by position or name.

        Updated tensors are written in place, after everything else.  Returns None, the
        result, or a tuple of results, fresh at every call: torch tensors if a tensor
        was passed, else arrays.

        Blocks  until every rank calls; if one raises, the others wait until the group's
                timeout
        Raises  ShapeError, DtypeError, ProgramError, TypeError: the arguments do not
                fit; what torch raises if its engine fails, nothing written then
        """
        tensors, scalars, rest = self.signature.match(given, named)
        return self.bind(**tensors)(*scalars, **rest)

    def bind(
        self, *, sizes: Mapping[str, int] | None = None, **tensors: Any
    ) -> BoundEager:
        """Fix the tensors; the result is called with the scalars.

        sizes gives the dims that no argument shows.
        Raises as a call does.
        """
        self.signature.check_names(tensors)
        for name, given in tensors.items():
            check_argument(name, given)
        all_sizes = self.signature.sizes(tensors, sizes or {})
        self.signature.check_written(tensors, share_memory)
        device = one_device(tensors)
        place = Place(self.group, self.rank, self.ranks, device, all_sizes)
        return BoundEager(self.program, place, self._steps, self._scalars, tensors)

    def __repr__(self) -> str:
        """Return program and ranks."""
        return f"<eager {self.program.name} on {self.ranks} ranks>"


class BoundEager:
    """One program on fixed tensors; call it with the scalars.  See EagerStep."""

    def __init__(
        self,
        program: Program,
        place: Place,
        steps: tuple[Step, ...],
        scalars: Mapping[Value, ScalarExpr],
        tensors: Mapping[str, Any],
    ) -> None:
        """Keep what was checked; see EagerStep.bind."""
        self._program, self._place, self._steps = program, place, steps
        self._tensors = dict(tensors)
        self._wants_torch = any(isinstance(x, Tensor) for x in tensors.values())
        self._names = [value.name for value in program.scalars]
        self._is_int = [value.type.dtype is i64 for value in program.scalars]
        self._scalars = tuple(scalars)
        self._evaluate = ScalarEvaluator(tuple(scalars.values()), place.sizes)

    def __call__(self, *given: float | int, **named: float | int) -> Any:
        """Run with these scalars, by position or name."""
        arguments = call_scalars(self._names, self._is_int, given, named)
        numbers = self._evaluate(arguments)
        inputs = {
            value: as_tensor(self._tensors[value.name])
            for value in self._program.tensors
        }
        # a view of an argument must not be returned, or read while another is written
        taken = {storage(x) for x in inputs.values()}
        known: dict[Value, Operand] = {
            **dict(zip(self._scalars, numbers, strict=True)),
            **inputs,
        }
        for value, call, done in self._steps:
            operands = (known[source] for source in value.inputs)
            known[value] = call(self._place, value, *operands)
            for gone in done:
                del known[gone]
        writes = [
            (self._tensors[update.inputs[0].name], own(known[update], taken))
            for update in self._program.effects
        ]
        results = [own(known[value], taken) for value in self._program.outputs]
        for target, new in writes:
            write(target, new)
        return self._returned(results)

    def _returned(self, results: list[Tensor]) -> Any:
        given = results if self._wants_torch else [as_array(x) for x in results]
        if len(given) > 1:
            return tuple(given)
        return given[0] if given else None


def _position(group: ProcessGroup | None) -> tuple[int, int]:
    """Return this process's rank in the group, and its size."""
    if not _distributed.is_available() or not _distributed.is_initialized():
        place = launch()
        if group is None and (place is None or place.size == 1):
            return 0, 1
        raise GroupError(
            "several ranks need a process group",
            got=f"{place.size if place else 'no'} ranks, no torch.distributed",
            need="a process group",
            fix="torch.distributed.init_process_group(..) first",
        )
    rank = _distributed.get_rank(group)
    if rank < 0:
        raise GroupError(
            "this process is not in the group",
            got=f"rank {_distributed.get_rank()}",
            need="one of the group's ranks",
        )
    return rank, _distributed.get_world_size(group)


def _check_group(program: Program, ranks: int) -> None:
    names = ", ".join(map(str, program.groups))
    if len(program.groups) != 1:
        raise GroupError(
            f"program {program.name!r} lives on {len(program.groups)} groups",
            got=names,
            need="one group per program",
        )
    if program.groups[0].size not in (None, ranks):
        raise GroupError(
            f"program {program.name!r} is for another number of ranks",
            got=f"{ranks} ranks",
            need=names,
        )


def _steps(program: Program) -> tuple[Step, ...]:
    """Return how every tensor is made, in order, and when each is done with."""
    values = [value for value in program.values if not value.type.is_scalar]
    last = {source: value for value in values for source in value.inputs}
    kept = {*program.outputs, *program.effects}
    steps: list[Step] = []
    for value in values:
        assert isinstance(value.op, Op)
        call = CALLS.get(type(value.op))
        if call is None:
            raise UnsupportedError(
                f"the eager backend has no {type(value.op).__name__}",
                got=value,
                fix='compile(.., backend="c")',
                at=value.at,
            )
        done = tuple(
            source
            for source in dict.fromkeys(value.inputs)
            if last[source] is value
            and source not in kept
            and not source.type.is_scalar
        )
        steps.append((value, call, done))
    return tuple(steps)


def _scalar_exprs(program: Program) -> dict[Value, ScalarExpr]:
    """Return the program's scalars as expressions, each after those it reads."""
    exprs: dict[Value, ScalarExpr] = {}
    numbers: dict[Value, int] = {}
    computed = [value for value in program.values if value.type.is_scalar]
    for value in (*program.scalars, *computed):
        is_int = value.type.dtype is i64
        match value.op:
            case Input():
                expr = ScalarExpr("argument", len(exprs), (), is_int)
            case Literal(number):
                expr = ScalarExpr("literal", number, (), is_int)
            case op:
                assert isinstance(op, Elementwise)  # nothing else makes scalars
                args = tuple(numbers[source] for source in value.inputs)
                expr = ScalarExpr(op.scalar_primitive, 0, args, is_int)
        numbers[value] = len(exprs)
        exprs[value] = expr
    return exprs

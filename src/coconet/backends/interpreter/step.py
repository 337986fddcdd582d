"""A program as a function of one process that needs no compiler: numpy, op by op."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from coconet.backends.arguments import (
    Signature,
    as_array,
    as_tensor,
    call_scalars,
    share_memory,
)
from coconet.errors import GroupError, NoCompiler
from coconet.interp import run_program
from coconet.ir import Program, i64
from coconet.settings import launch, settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["InterpretedStep", "without_compiler"]


def without_compiler(program: Program, error: NoCompiler) -> InterpretedStep:
    """Return a program's step where the C backend found no compiler, and say so once.

    Raises NoCompiler if CC was meant to name one, or the run has several ranks
    """
    if settings().compiler:
        raise error
    place = launch()
    if place is not None and place.size > 1:
        raise NoCompiler(
            error.what,
            got=error.got,
            need=error.need,
            fix=f'{error.fix}; or backend="eager", on torch.distributed',
        ) from None
    _say(f"{error.what}, so programs run in the interpreter, slowly; {error.fix}")
    return InterpretedStep(program)


@functools.cache
def _say(line: str) -> None:
    print(f"coconet: {line}", file=sys.stderr, flush=True)


class InterpretedStep:
    """A program on one rank: the bits of the C backend, and none of its speed.

    Fields  program  what runs
    """

    def __init__(self, program: Program) -> None:
        """Be the one rank of the program's group; raises GroupError if it has more."""
        for group in program.groups:
            if group.size not in (None, 1):
                raise GroupError(
                    f"program {program.name!r} is for another number of ranks",
                    got="one process",
                    need=group,
                )
        self.program = program
        self.signature = Signature.of_program(program, 0, 1)

    def __call__(self, *given: Any, out: Any = None, **named: Any) -> Any:
        """Run on tensors, then scalars, by position or name, as a compiled step does.

        Raises ShapeError, DtypeError, ProgramError, TypeError: arguments do not fit
        """
        tensors, scalars, rest = self.signature.match(given, named)
        return self.bind(out=out, **tensors)(*scalars, **rest)

    def bind(
        self, *, sizes: Mapping[str, int] | None = None, out: Any = None, **tensors: Any
    ) -> Callable[..., Any]:
        """Fix the tensors, and where results go; the result is called with the scalars.

        sizes gives the dims that no argument shows.
        Raises as a call does.
        """
        self.signature.check_names(tensors)
        places = self.signature.outs(out)
        passed = {**tensors, **places}
        arrays = {name: as_array(name, given) for name, given in passed.items()}
        all_sizes = self.signature.sizes(arrays, sizes or {})
        self.signature.check_written(arrays, share_memory)
        wants_torch = any(hasattr(given, "data_ptr") for given in tensors.values())

        def call(*given: float | int, **named: float | int) -> Any:
            results = self._run(arrays, all_sizes, given, named)
            if wants_torch:
                results = [as_tensor(result) for result in results]
            returned = tuple(places.values()) or results
            return tuple(returned) if len(returned) > 1 else next(iter(returned), None)

        return call

    def _run(
        self,
        arrays: Mapping[str, Array],
        sizes: Mapping[str, int],
        given: tuple[Any, ...],
        named: Mapping[str, Any],
    ) -> list[Any]:
        """Write what is updated, and results that have a place; return all results."""
        program = self.program
        names = [value.name for value in program.scalars]
        is_int = [value.type.dtype is i64 for value in program.scalars]
        numbers = call_scalars(names, is_int, given, named)
        scalars = dict(zip(names, numbers, strict=True))
        tensors = {value.name: (arrays[value.name],) for value in program.tensors}
        found = run_program(program, 1, sizes, {**tensors, **scalars})
        # results may be views of arguments, which the updates below change
        results = {name: result.copy() for name, (result,) in found.outputs.items()}
        for name, (new,) in found.effects.items():
            np.copyto(arrays[name], new)
        for name in results.keys() & arrays.keys():
            np.copyto(arrays[name], results[name])
        return list(results.values())

    def __repr__(self) -> str:
        """Return the program's name."""
        return f"<interpreted {self.program.name}>"

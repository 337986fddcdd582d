"""A plan as a function of this process, together with the same on every rank."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from coconet.backends.arguments import Signature, as_array, share_memory
from coconet.backends.c.bound import BoundStep
from coconet.backends.c.printer import print_plan
from coconet.backends.c.refuse import refusing
from coconet.backends.c.words import Knobs
from coconet.errors import GroupError, UnsupportedError
from coconet.plan import Plan, Role
from coconet.plan.verify import verify_plan
from coconet.runtime.build import build
from coconet.runtime.executable import Kernel
from coconet.runtime.library import header_text
from coconet.runtime.world import World

__all__ = ["CompiledStep", "compile_plan"]

_KEPT = 16
"""Bindings kept by a step that is called with changing shapes."""


def compile_plan(
    plan: Plan, world: World, *, knobs: Knobs | None = None
) -> CompiledStep:
    """Prove, print, compile (or find in the cache) and load a plan.

    Raises GroupError if the plan is for another number of ranks; UnsupportedError,
    CompileError, NoCompiler, CacheError.
    """
    _check_names(plan)
    if plan.ranks != world.size:
        raise GroupError(
            f"plan {plan.name!r} is for another number of ranks",
            got=f"{world.size} processes",
            need=f"{plan.ranks} ranks",
        )
    verify_plan(plan)
    code = print_plan(plan)
    sources = {"kernel.c": code, "runtime.h": header_text()}
    path = build(_library_name(plan.name), sources)
    return CompiledStep(plan, world, Kernel(path), code, knobs or Knobs())


class CompiledStep:
    """A compiled program: call it with arrays or tensors and scalars, on every rank.

    Fields  plan      what runs
            code      the C text
            world     the processes it runs on
            schedule  what coconet.compile was given, None if it was made otherwise
    """

    def __init__(
        self, plan: Plan, world: World, kernel: Kernel, code: str, knobs: Knobs
    ) -> None:
        """Keep what is compiled; see compile_plan."""
        self.plan = plan
        self.world = world
        self.code = code
        self.knobs = knobs
        self.schedule: Any = None
        self.kernel = kernel
        self.signature = Signature.of_plan(plan, world.rank)
        digest = hashlib.sha256(f"{plan}\n{code}".encode()).digest()
        self.fingerprint = int.from_bytes(digest[:8], "little")
        self._bound: dict[tuple[Any, ...], BoundStep] = {}

    def __call__(self, *given: Any, out: Any = None, **named: Any) -> Any:
        """Run on this rank's arguments: tensors, then scalars, by position or name.

        Updated tensors are written in place.  Returns None, the result, or a tuple of
        results: torch tensors if a tensor was passed, else arrays, fresh at every call;
        or `out`, one array or tensor or a tuple of them, into which they are written.

        Blocks  until every rank calls, and while the plan waits
        Raises  ShapeError, DtypeError, TypeError: this rank's arguments do not fit; the
                other ranks raise RanksDisagree.  RunError: see its classes
        """
        tensors, scalars, rest = self._refusing(self.signature.match, given, named)
        if out is not None:
            tensors |= self._refusing(self.signature.outs, out)
        key = tuple(_kind(tensor) for tensor in tensors.values())
        bound = self._bound.get(key)
        if bound is None:
            bound = self._refusing(self._place, tensors, {})
            if len(self._bound) >= _KEPT:
                self._bound.pop(next(iter(self._bound)))
            self._bound[key] = bound
        return bound.call_on(tensors, self._arrays, scalars, rest)

    def bind(
        self, *, sizes: Mapping[str, int] | None = None, out: Any = None, **tensors: Any
    ) -> BoundStep:
        """Fix the tensors; the result is called with the scalars, in 1-5 us.

        sizes gives the dims that no argument shows; out is where results go, as in a
        call: with it, and all tensors in symmetric memory, a call allocates nothing.
        Raises as a call does.
        """
        return self._refusing(self._bind, tensors, out, sizes or {})

    def with_knobs(self, knobs: Knobs) -> CompiledStep:
        """Return the same kernel with other knobs: nothing is proved or compiled."""
        step = CompiledStep(self.plan, self.world, self.kernel, self.code, knobs)
        step.schedule = self.schedule
        return step

    def _bind(
        self, tensors: Mapping[str, Any], out: Any, sizes: Mapping[str, int]
    ) -> BoundStep:
        self.signature.check_names(tensors)
        return self._place({**tensors, **self.signature.outs(out)}, sizes)

    def _place(self, tensors: Mapping[str, Any], sizes: Mapping[str, int]) -> BoundStep:
        arrays = self._arrays(tensors)
        bound = BoundStep(
            self.plan,
            self.world,
            self.kernel,
            fingerprint=self.fingerprint,
            knobs=self.knobs,
            sizes=self.signature.sizes(arrays, sizes),
            wants_torch=any(hasattr(given, "data_ptr") for given in tensors.values()),
        )
        bound.place(arrays, keep=tensors)
        _warn_of_lost_gradients(self.plan, tensors)
        return bound

    def _arrays(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        arrays = {name: as_array(name, given) for name, given in tensors.items()}
        self.signature.check_written(arrays, share_memory)
        return arrays

    def _refusing(self, check: Callable[..., Any], *args: Any) -> Any:
        return refusing(self.world, self.plan.name, check, *args)

    def __repr__(self) -> str:
        """Return program and ranks."""
        return f"<compiled {self.plan.name} on {self.plan.ranks} ranks>"


def _check_names(plan: Plan) -> None:
    """Refuse inputs that a caller could not tell from a step's options."""
    inputs = {*(buffer.name for buffer in plan.with_role(Role.ARGUMENT)), *plan.scalars}
    for name in sorted(inputs & {"out", "sizes"}):
        raise UnsupportedError(
            f"program {plan.name!r} has an input called {name!r}",
            got="an option of the same name when its step is called or bound",
            fix="give the input another name",
        )


def _library_name(program: str) -> str:
    """Return a name for files; a program's may begin with `_`, or have any letters."""
    return re.sub(r"\W", "_", f"program_{program}", flags=re.ASCII)[:64]


def _warn_of_lost_gradients(plan: Plan, tensors: Mapping[str, Any]) -> None:
    """Say that results carry no gradient, where the caller may expect one."""
    wanting = [n for n, x in tensors.items() if getattr(x, "requires_grad", False)]
    if not wanting or not plan.with_role(Role.RESULT):
        return
    import torch

    if torch.is_grad_enabled():
        warnings.warn(
            f"the results of program {plan.name!r} carry no gradient, and "
            f"{', '.join(wanting)} requires one; call it under torch.no_grad()",
            stacklevel=6,
        )


def _kind(tensor: Any) -> tuple[Any, ...]:
    """Return what a binding depends on, where the tensor lies left aside."""
    shape, dtype = getattr(tensor, "shape", ()), getattr(tensor, "dtype", None)
    return hasattr(tensor, "data_ptr"), tuple(shape), dtype

"""Verify schedules on real processes: the C backend against the interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coconet.backends.c import compile_plan
from coconet.backends.c.compile import CompiledStep
from coconet.interp import first_difference, random_arguments
from coconet.ir import Program
from coconet.lower import lower
from coconet.runtime.launch import spawn
from coconet.runtime.world import World, init
from coconet.schedule import Schedule
from coconet.verification.expected import Named, expected_results
from coconet.verification.report import Case, Report
from coconet.verification.sizes import sizes_for
from coconet.verification.target import load_schedules

__all__ = ["verify_on_processes"]

_MEMORY = ("symmetric", "private", "strided")


def verify_on_processes(path: Path, name: str, ranks: Iterable[int]) -> Report:
    """Run every library schedule of a program in a file, on each number of ranks.

    Each case is called twice in a row, on tensors in symmetric memory, in private
    memory, and in private memory with strides.
    Raises PeerFailed if a rank fails.
    """
    cases: list[Case] = []
    for count in ranks:
        per_rank: list[Any] = spawn(_check, count, str(path.resolve()), name)
        for rank, found in enumerate(per_rank):
            for case in (Case(**fields) for fields in found):
                if rank == 0 or case.mismatch:
                    cases.append(case)
    return Report(name, tuple(cases))


def _check(path: str, name: str) -> list[dict[str, Any]]:
    """Run on one rank of a spawned world; returns the cases as plain data."""
    world = init()
    program, schedules = load_schedules(Path(path), name)
    found: list[dict[str, Any]] = []
    for label, schedule in schedules.items():
        step = compile_plan(lower(schedule.result, world.size), world)
        for number, sizes in enumerate(sizes_for(program.dims, world.size)):
            need = [
                expected_results(program, schedule.result, world.size, sizes, seed)
                for seed in (number, number + 1000)
            ]
            for memory in _MEMORY:
                wrong = _mismatch(world, step, schedule, sizes, number, memory, need)
                found.append(
                    {
                        "schedule": label,
                        "ranks": world.size,
                        "sizes": sizes,
                        "executor": f"C, {memory} tensors",
                        "mismatch": wrong,
                    }
                )
    return found


def _mismatch(
    world: World,
    step: CompiledStep,
    schedule: Schedule,
    sizes: Mapping[str, int],
    number: int,
    memory: str,
    need: list[Named],
) -> str:
    program = schedule.result
    seeds = number, number + 1000
    calls = [random_arguments(program, world.size, sizes, seed) for seed in seeds]
    names = [value.name for value in program.tensors]
    tensors = {n: _place(world, calls[0][n][world.rank], memory) for n in names}
    bound = step.bind(sizes=sizes, **tensors)
    for call, arguments in enumerate(calls):
        mine = {name: arguments[name][world.rank] for name in names}
        for name, array in mine.items():
            tensors[name][...] = array
        scalars = {v.name: arguments[v.name] for v in program.scalars}
        got = _results(program, bound(**scalars), tensors)
        expected = {name: (arrays[world.rank],) for name, arrays in need[call].items()}
        found = first_difference(got, expected)
        if found is not None:
            return f"rank {world.rank}, call {call + 1}: {found}"
    return ""


def _place(world: World, array: Any, memory: str) -> Any:
    """Return an array of this shape in this kind of memory."""
    if memory == "symmetric":
        return world.pool.empty(array.shape, array.dtype)
    if memory == "private":
        return np.empty_like(array)
    wide = np.empty((*array.shape, 2), array.dtype)
    return wide[..., 0]


def _results(program: Program, returned: Any, tensors: Mapping[str, Any]) -> Named:
    names = [value.name for value in program.outputs]
    outputs: Any = (returned,) if len(names) == 1 else returned or ()
    got: Named = {n: (a,) for n, a in zip(names, outputs, strict=True)}
    updated = [value.inputs[0].name for value in program.effects]
    return got | {name: (tensors[name].copy(),) for name in updated}

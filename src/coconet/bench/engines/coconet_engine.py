"""Our own step, on symmetric arrays, in a given schedule of the library."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from itertools import count

import coconet as cc
from coconet.bench.engines.engine import Place, Ready
from coconet.bench.engines.task import BETAS, EPS, LR, Array
from coconet.ir import Domain, Value
from coconet.workloads.chain import random_chain
from coconet.workloads.optimizers import (
    ADAM_MIXED_STATE,
    ADAM_STATE,
    SGD_MIXED_STATE,
    adam,
    adam_mixed,
    sgd,
    sgd_mixed,
)

__all__ = ["Chain", "Coconet", "engine"]

_PROGRAMS = {
    ("adam", "f32"): (adam, ADAM_STATE),
    ("adam", "bf16"): (adam_mixed, ADAM_MIXED_STATE),
    ("sgd", "f32"): (sgd, ()),
    ("sgd", "bf16"): (sgd_mixed, SGD_MIXED_STATE),
}
_SCALARS = {"lr": LR, "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS}


class Coconet:
    """A compiled schedule of the task's program, bound once and called per step."""

    def __init__(self, place: Place, schedule: str) -> None:
        """Join the world that the driver's environment describes."""
        self.world = cc.init()
        self.library = f"coconet {version('coconet')}"
        self.rank, self.task = place.rank, place.task
        program, state = _PROGRAMS[place.task.optimizer, place.task.dtype]
        if schedule == "fused_sliced" and not state:
            schedule = "fused"
        self.name = schedule
        self.schedule = cc.library(program, state=state)[schedule]

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        program = self.schedule.result
        step = cc.compile(self.schedule, group=self.world)
        tensors = {
            value.name: self._tensor(value, elements) for value in program.tensors
        }
        bound = step.bind(sizes={"N": elements}, **tensors)
        names = {value.name for value in program.scalars}
        call = partial(bound, **{n: s for n, s in _SCALARS.items() if n in names})
        steps = count(1)
        take = (lambda: call(t=next(steps))) if "t" in names else call
        return Ready(take, self.name, tensors["g"], tensors["p"])

    def close(self) -> None:
        """Leave the world."""
        self.world.close()

    def _tensor(self, value: Value, elements: int) -> Array:
        """Return an input on this rank: a gradient, a parameter or copy, a moment."""
        lo, hi = 0, elements
        if isinstance(value.type.layout, cc.Sliced):
            domain = Domain.of((elements,), cc.FLAT)
            lo, hi = domain.piece(self.world.rank, self.world.size)
        array = cc.zeros((hi - lo,), value.type.dtype, self.world)
        if value.name == "g":
            array[:] = self.task.gradient(elements, self.rank)
        elif value.name in ("p", "w"):
            array[:] = self.task.parameter(elements)[lo:hi]
        return array


def engine(schedule: str) -> partial[Coconet]:
    """Return the engine of one schedule of the library."""
    return partial(Coconet, schedule=schedule)


fused = engine("fused_sliced")
local_fused = engine("local_fused")
unfused = engine("as_written")


class Chain:
    """A random chain of element-wise ops with the traffic of an Adam step.

    Drawn anew at every size, so that no kernel was written with it in mind.
    """

    def __init__(self, place: Place) -> None:
        """Join the world that the driver's environment describes."""
        self.world = cc.init()
        self.library = f"coconet {version('coconet')}"

    def prepare(self, elements: int) -> Ready:
        """Return the step for tensors of that many elements."""
        world, program = self.world, random_chain(seed=elements)
        step = cc.compile(cc.library(program, state=("m", "v"))["fused_sliced"])
        piece = Domain.of((elements,), cc.FLAT).piece_numel(world.rank, world.size)
        sizes = {"g": elements, "p": elements, "m": piece, "v": piece}
        tensors = {n: cc.empty((size,), cc.f32, world) for n, size in sizes.items()}
        for array in tensors.values():
            array[:] = 0.5
        bound = step.bind(sizes={"N": elements}, **tensors)
        return Ready(partial(bound, a=0.25), f"fused_sliced, chain of seed {elements}")

    def close(self) -> None:
        """Leave the world."""
        self.world.close()

"""Our own step, on symmetric arrays, in a given schedule of the library."""

from __future__ import annotations

from functools import partial
from itertools import count

import coconet as cc
from coconet.bench.engines.engine import (
    BETAS,
    EPS,
    LR,
    Place,
    Ready,
    gradient,
    parameter,
)
from coconet.ir import Domain
from coconet.workloads.chain import random_chain
from coconet.workloads.optimizers import ADAM_STATE, adam

__all__ = ["Chain", "Coconet", "engine"]


class Coconet:
    """A compiled schedule of the program `adam`, bound once and called per step."""

    def __init__(self, place: Place, schedule: str) -> None:
        """Join the world that the driver's environment describes."""
        self.world = cc.init()
        self.rank = place.rank
        self.name = schedule
        self.schedule = cc.library(adam, state=ADAM_STATE)[schedule]

    def prepare(self, elements: int) -> Ready:
        """Return the step for a parameter of that many elements."""
        world = self.world
        step = cc.compile(self.schedule, group=world)
        g, p = (cc.empty((elements,), cc.f32, world) for _ in range(2))
        state = elements
        if isinstance(self.schedule.result["m"].type.layout, cc.Sliced):
            domain = Domain.of((elements,), cc.FLAT)
            state = domain.piece_numel(world.rank, world.size)
        m, v = (cc.zeros((state,), cc.f32, world) for _ in range(2))
        g[:], p[:] = gradient(elements, self.rank), parameter(elements)
        bound = step.bind(sizes={"N": elements}, g=g, p=p, m=m, v=v)
        call = partial(bound, lr=LR, beta1=BETAS[0], beta2=BETAS[1], eps=EPS)
        steps = count(1)
        return Ready(lambda: call(t=next(steps)), self.name, g, p)

    def close(self) -> None:
        """Leave the world."""
        self.world.close()


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

"""The demo without torch: the same Adam update, on arrays, beside the interpreter."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

import coconet as cc
from coconet.backends.c.compile import CompiledStep
from coconet.demo.facts import RankReport
from coconet.demo.listing import listing_of
from coconet.demo.recipe import Recipe
from coconet.demo.turns import take_turns
from coconet.interp import run_program
from coconet.interp.program import Arguments
from coconet.ir import Domain
from coconet.runtime.world import World
from coconet.workloads.optimizers import ADAM_STATE, adam

__all__ = ["run"]

Array = NDArray[np.float32]

HYPER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
NAMES = ("coconet, compiled", "the interpreter (numpy)")
NOTES = (
    "torch is not installed, so there is no model and no DDP here: the same Adam "
    "update ran on arrays, beside the interpreter. pip install 'coconet[torch]' brings "
    "the transformer.",
    "Each rank pulls the parameter towards a target of its own; the loss is half the "
    "mean square of the distance, and forward+backward is a subtraction.",
    "The interpreter defines what a program means. It computes every rank in each "
    "process and is no competitor in speed.",
)


def run(recipe: Recipe) -> RankReport:
    """Move one parameter towards a target of each rank, on both sides."""
    world = cc.init()
    targets = [_target(recipe, rank) for rank in range(world.size)]
    schedule = cc.library(adam, state=ADAM_STATE)["fused_sliced"]
    step: CompiledStep = cc.compile(schedule, group=world)
    contestants = (
        Compiled(step, world, targets[world.rank]),
        Interpreted(world, targets),
    )
    return RankReport(
        task=f"Adam on an array of {recipe.elements} f32 numbers",
        is_exact=True,
        names=NAMES,
        traces=take_turns(contestants, recipe, world),
        listing=listing_of(schedule, world.size),
        notes=list(NOTES),
    )


class Compiled:
    """Our side: the fused kernel on symmetric memory, moments in pieces."""

    def __init__(self, step: CompiledStep, world: World, target: Array) -> None:
        """Start at zeros."""
        self.target = target
        self.g, self.p = (cc.zeros(target.shape, cc.f32, world) for _ in range(2))
        piece = Domain.of(target.shape, cc.FLAT).piece_numel(world.rank, world.size)
        self.m, self.v = (cc.zeros((piece,), cc.f32, world) for _ in range(2))
        sizes = {"N": target.size}
        bound = step.bind(sizes=sizes, g=self.g, p=self.p, m=self.m, v=self.v)
        self.update = partial(bound, **HYPER)

    def prepare(self, step: int) -> None:
        """Note the step, which Adam counts from 1."""
        self.t = step + 1

    def alone(self) -> None:
        """Compute the gradient."""
        np.subtract(self.p, self.target, out=self.g)

    def iterate(self) -> None:
        """Compute the gradient, exchange and update."""
        self.alone()
        self.update(t=self.t)

    def loss(self) -> float:
        """Return the loss before the last update, which the gradient shows."""
        return _loss(self.g)

    def state_bytes(self) -> int:
        """Return the bytes of this rank's pieces."""
        return self.m.nbytes + self.v.nbytes

    def digest(self) -> str:
        """Return the sha256 of the parameter."""
        return hashlib.sha256(self.p.tobytes()).hexdigest()


class Interpreted:
    """The reference: the program as written, op by op, all ranks in this process."""

    def __init__(self, world: World, targets: Sequence[Array]) -> None:
        """Start at zeros."""
        self.rank, self.targets = world.rank, targets
        zeros = [np.zeros_like(target) for target in targets]
        self.arrays: dict[str, Sequence[Array]] = dict.fromkeys("gpmv", zeros)

    def prepare(self, step: int) -> None:
        """Note the step, which Adam counts from 1."""
        self.t = step + 1

    def alone(self) -> None:
        """Compute the gradient of every rank."""
        parameters = zip(self.arrays["p"], self.targets, strict=True)
        self.arrays["g"] = [p - target for p, target in parameters]

    def iterate(self) -> None:
        """Compute the gradients, then the program on all ranks."""
        self.alone()
        arguments: Arguments = {**self.arrays, **HYPER, "t": self.t}
        ranks, sizes = len(self.targets), {"N": self.targets[0].size}
        effects = run_program(adam, ranks, sizes, arguments).effects
        self.arrays.update(effects)

    def loss(self) -> float:
        """Return this rank's loss before the last update."""
        return _loss(self.arrays["g"][self.rank])

    def state_bytes(self) -> int:
        """Return the bytes of one rank's moments."""
        return sum(self.arrays[name][self.rank].nbytes for name in ADAM_STATE)

    def digest(self) -> str:
        """Return the sha256 of this rank's parameter."""
        return hashlib.sha256(self.arrays["p"][self.rank].tobytes()).hexdigest()


def _target(recipe: Recipe, rank: int) -> Array:
    random = np.random.default_rng([recipe.seed, rank])
    return random.random(recipe.elements, dtype=np.float32)


def _loss(distance: Array) -> float:
    return float(np.mean(np.square(distance), dtype=np.float64)) / 2

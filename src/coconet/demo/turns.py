"""Two sides take every step beside each other, and a clock runs for one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

import coconet as cc
from coconet.demo.facts import Trace
from coconet.demo.recipe import Recipe
from coconet.runtime.world import World
from coconet.workloads.optimizers import sgd

__all__ = ["Contestant", "take_turns"]

_SAID = 10
"""Lines of progress."""


class Contestant(Protocol):
    """One side on one rank."""

    def prepare(self, step: int) -> None:
        """Get ready for either of the two below; not timed."""
        ...

    def iterate(self) -> None:
        """Take the whole step: forward, backward, exchange, update."""
        ...

    def alone(self) -> None:
        """Run forward and backward of the same step, without exchange or update."""
        ...

    def loss(self) -> float:
        """Return the loss of the last iteration."""
        ...

    def state_bytes(self) -> int:
        """Return the bytes of optimizer state on this rank."""
        ...

    def digest(self) -> str:
        """Return the sha256 of the parameters."""
        ...


def take_turns(
    contestants: tuple[Contestant, Contestant], recipe: Recipe, world: World
) -> tuple[Trace, Trace]:
    """Run every step on both sides; rank 0 prints progress.

    All ranks start a clock together, so that nobody's time holds a wait for a peer
    that was late already.  What is timed within a step goes in random order, the same
    on every rank: on a busy machine it matters what ran just before.
    """
    meet = _meeting(world)
    ours, reference = lanes = [_Lane(contestant, meet) for contestant in contestants]
    random = np.random.default_rng(recipe.seed)
    began = time.perf_counter()
    for step in range(recipe.steps):
        turns = [lane.step for lane in lanes]
        if recipe.is_timed_alone(step):
            turns += [lane.time_alone for lane in lanes]
        for number in random.permutation(len(turns)):
            turns[number](step)
        done = step + 1
        if world.rank == 0 and done % max(1, recipe.steps // _SAID) == 0:
            losses = f"{ours.losses[-1]:.4f} and {reference.losses[-1]:.4f}"
            spent_s = time.perf_counter() - began
            print(
                f"step {done:>4} of {recipe.steps}   losses {losses}  {spent_s:5.1f} s",
                flush=True,
            )
    return ours.trace(), reference.trace()


class _Lane:
    """A contestant and its times."""

    def __init__(self, contestant: Contestant, meet: Callable[[], object]) -> None:
        self.contestant, self.meet = contestant, meet
        self.losses: list[float] = []
        self.iteration_s: list[float] = []
        self.alone_steps: list[int] = []
        self.alone_s: list[float] = []

    def step(self, step: int) -> None:
        self.contestant.prepare(step)
        self.iteration_s.append(self._timed(self.contestant.iterate))
        self.losses.append(self.contestant.loss())

    def time_alone(self, step: int) -> None:
        self.contestant.prepare(step)
        self.alone_steps.append(step)
        self.alone_s.append(self._timed(self.contestant.alone))

    def _timed(self, action: Callable[[], None]) -> float:
        self.meet()
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    def trace(self) -> Trace:
        return Trace(
            losses=self.losses,
            iteration_s=self.iteration_s,
            alone_steps=self.alone_steps,
            alone_s=self.alone_s,
            state_bytes=self.contestant.state_bytes(),
            digest=self.contestant.digest(),
        )


def _meeting(world: World) -> Callable[[], object]:
    """Return a function that returns once every rank has called it: a tiny step."""
    g, p = (cc.zeros((1,), cc.f32, world) for _ in range(2))
    bound = cc.compile(sgd, group=world).bind(g=g, p=p)
    return lambda: bound(lr=0.0)

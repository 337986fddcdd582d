"""The demo itself: one model trained twice, by our Adam and by torch's under DDP."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import coconet as cc
from coconet.demo.corpus import VOCABULARY, Corpus, batch, read_corpus
from coconet.demo.facts import RankReport
from coconet.demo.listing import listing_of
from coconet.demo.model import CharModel, loss_of
from coconet.demo.recipe import Recipe
from coconet.demo.turns import take_turns
from coconet.ir import Program
from coconet.schedule import Schedule
from coconet.torch.explain import Explanation
from coconet.torch.optim import Adam
from coconet.torch.schedule import fused

__all__ = ["run"]

_torch: Any = torch  # torch annotates few parameters

NAMES = ("coconet.torch.optim.Adam", "torch DDP, Adam(fused=True), gloo")
NOTES = (
    "Both sides train in the same processes, from the same initial parameters, on the "
    "same batches, one after the other at each step, in random order. All ranks start "
    "a clock together; an iteration ends when the slowest rank has ended it.",
    "Forward+backward alone: torch's side under no_sync(); ours on a copy of the model "
    "without our hooks, so that all that they copy counts as ours.",
)


def run(recipe: Recipe, folder: Path) -> RankReport:
    """Train on this rank, beside the others; torch's ranks meet at a file in folder."""
    world = cc.init()
    torch.set_num_threads(1)
    distributed: Any = torch.distributed
    distributed.init_process_group(
        "gloo",
        store=distributed.FileStore(str(folder / "store"), world.size),
        rank=world.rank,
        world_size=world.size,
        timeout=timedelta(seconds=120),
    )
    corpus = read_corpus(recipe.text_bytes)
    feed = Feed(corpus, recipe, world.rank)
    model = _model(recipe)
    reference = _theirs(copy.deepcopy(model), feed, recipe)
    schedules: list[Schedule] = []
    ours = _ours(model, feed, recipe, schedules)
    traces = take_turns((ours, reference), recipe, world)
    distributed.destroy_process_group()
    return RankReport(
        task=_task(recipe, corpus, model),
        is_exact=False,
        names=NAMES,
        traces=traces,
        listing=listing_of(schedules[0], world.size),
        notes=[*NOTES, _copies(ours.optimizer.explain())],
    )


class Feed:
    """The batches of one rank, as tensors."""

    def __init__(self, corpus: Corpus, recipe: Recipe, rank: int) -> None:
        """Keep what they are made of."""
        self.corpus, self.recipe, self.rank = corpus, recipe, rank

    def __call__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the characters of a step, and those that follow."""
        codes, following = batch(self.corpus, self.recipe, step=step, rank=self.rank)
        return _torch.from_numpy(codes), _torch.from_numpy(following)


class Trainee:
    """One side on one rank: a model and its optimizer."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,
        feed: Feed,
        *,
        lone_model: nn.Module,
        quiet: Callable[[], AbstractContextManager[Any]],
        state_bytes: Callable[[], int],
    ) -> None:
        """Keep them; forward+backward alone is that of `lone_model`, under `quiet`."""
        self.model, self.optimizer, self.feed = model, optimizer, feed
        self.lone_model, self.quiet = lone_model, quiet
        self.state_bytes = state_bytes

    def prepare(self, step: int) -> None:
        """Fetch the batch."""
        self.batch = self.feed(step)

    def iterate(self) -> None:
        """Train for one step."""
        self.optimizer.zero_grad(set_to_none=False)
        self.last_loss = _forward_backward(self.model, self.batch)
        self.optimizer.step()

    def alone(self) -> None:
        """Run forward and backward; the gradients are not used."""
        self.lone_model.zero_grad(set_to_none=False)
        with self.quiet():
            _forward_backward(self.lone_model, self.batch)

    def loss(self) -> float:
        """Return the loss of the last iteration on this rank's batch."""
        return self.last_loss.item()

    def digest(self) -> str:
        """Return the sha256 of the parameters."""
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        return digest.hexdigest()


def _forward_backward(
    model: nn.Module, pair: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    loss: Any = loss_of(model, *pair)
    loss.backward()
    return loss.detach()


def _model(recipe: Recipe) -> nn.Module:
    _torch.manual_seed(recipe.seed)
    return CharModel(
        vocabulary=VOCABULARY,
        context=recipe.context,
        layers=recipe.layers,
        width=recipe.width,
        heads=recipe.heads,
    )


def _ours(
    model: nn.Module, feed: Feed, recipe: Recipe, schedules: list[Schedule]
) -> Trainee:
    """Return our side; the schedule that its optimizer takes is kept in `schedules`."""
    lone_model = copy.deepcopy(model)

    def schedule(program: Program) -> Schedule:
        schedules.append(fused(program).schedule)
        return schedules[-1]

    optimizer = Adam(model.parameters(), lr=recipe.lr, schedule=schedule)

    def state_bytes() -> int:
        return sum(group.state_bytes for group in optimizer.explain().groups)

    return Trainee(
        model,
        optimizer,
        feed,
        lone_model=lone_model,
        quiet=nullcontext,
        state_bytes=state_bytes,
    )


def _theirs(model: nn.Module, feed: Feed, recipe: Recipe) -> Trainee:
    # The view saves DDP a copy of every gradient.
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=recipe.lr, fused=True)

    def state_bytes() -> int:
        states: Any = optimizer.state.values()
        return sum(tensor.nbytes for state in states for tensor in state.values())

    return Trainee(
        wrapped,
        optimizer,
        feed,
        lone_model=wrapped,
        quiet=wrapped.no_sync,
        state_bytes=state_bytes,
    )


def _copies(explanation: Explanation) -> str:
    copied_bytes = sum(group.copied_bytes for group in explanation.groups)
    return (
        "Both sides zero gradients in place, which spares both a copy of them; in the "
        f"last step our hooks copied {copied_bytes:,} bytes."
    )


def _task(recipe: Recipe, corpus: Corpus, model: nn.Module) -> str:
    numel = sum(parameter.numel() for parameter in model.parameters())
    return (
        f"A character-level transformer of {numel:,} parameters "
        f"({recipe.layers} layers of width {recipe.width}) reads the sources of "
        f"Python's standard library: {corpus.codes.size:,} characters of "
        f"{corpus.files} files, sha256 {corpus.sha256[:12]}; {recipe.steps} steps of "
        f"{recipe.batch} x {recipe.context} characters on each rank"
    )

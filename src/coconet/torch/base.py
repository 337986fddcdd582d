"""What all optimizers share: layout, agreement between ranks, state, explanation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, compress, product
from typing import Any, NoReturn, TypedDict

import torch
import torch.distributed as dist

from coconet.backends.c.refuse import refusing
from coconet.errors import RanksDisagree
from coconet.ir import Program
from coconet.runtime.world import World
from coconet.torch.choose import Chooser, Tune
from coconet.torch.dist import world_of
from coconet.torch.explain import Explanation, GroupExplanation
from coconet.torch.flat import Bound, Flat
from coconet.torch.kind import DTYPES, Kind, by_kind, set_grad_dtype
from coconet.torch.refuse import (
    refuse_kinds,
    refuse_options,
    refuse_overlaps,
    refuse_wrapped,
)
from coconet.torch.schedule import Scheduler, one_kernel
from coconet.torch.shared import Shared
from coconet.torch.state import load_state, whole_state
from coconet.torch.vote import Vote
from coconet.torch.workloads import Variant, reduced

__all__ = ["Optimizer", "Options"]

ParamGroup = dict[str, Any]


class Options(TypedDict, total=False):
    """What every optimizer takes besides torch's arguments: see Optimizer."""

    group: dist.ProcessGroup | World | None
    reduction: str
    max_norm: float | None
    schedule: Scheduler | None
    tune: Tune
    tune_time_s: float
    grad_dtype: torch.dtype | None


class Optimizer(torch.optim.Optimizer, ABC):
    """The base of the optimizers; every rank makes the same and calls the same.

    group      a torch ProcessGroup, a World, or None: the default one; see world_of
    reduction  of the gradients over ranks: "mean", as DistributedDataParallel, or "sum"
    max_norm   scale the reduced gradient down to this 2-norm at every step;
               clip_grad_norm_ before the step would see one rank's gradient only
    schedule   from the step's program to a schedule of it, which is not tuned
    tune       True: the first step finds the fastest schedule of groups of 2**18 and
               more elements, or what an earlier run found; False: one kernel, state in
               pieces; a Schedule, or the path of its JSON: that, where it fits
    tune_time_s  seconds that tuning may take in all, about
    grad_dtype of 16-bit parameters' gradients: torch.float32 adds up micro-batches, and
               exchanges, without rounding; None: what each parameter's grad_dtype says

    A step computes in f32, or f64 for f64 parameters; so does its state.  16-bit
    parameters have f32 master weights, which are state, and are a rounded copy of them;
    a parameter written by someone else becomes its master weight.

    Parameters take the values of rank 0.  Their memory, and that of their gradients,
    is moved into symmetric memory.  A step needs every rank: a gradient that is None on
    some ranks counts as zeros, and one that is None on all leaves its parameter alone.
    state_dict() needs no other rank; load_state_dict() needs all.

    Fields  total_norm  of the reduced gradient in the last step, if max_norm is given
    Raises  UnsupportedError for parameters that are not f16, bf16, f32 or f64 on the
            CPU; ProgramError if they are wrapped in DistributedDataParallel or share
            memory; ScheduleError if `tune` gives a schedule that fits no program here;
            OSError if its file cannot be read; RanksDisagree
    """

    _step_supports_amp_scaling = True  # GradScaler then lets us decide about inf
    _counts_steps = False  # whether state_dict has the number of steps

    def __init__(
        self,
        params: Any,
        defaults: dict[str, Any],
        *,
        group: dist.ProcessGroup | World | None = None,
        reduction: str = "mean",
        max_norm: float | None = None,
        schedule: Scheduler | None = None,
        tune: Tune = True,
        tune_time_s: float = 4.0,
        grad_dtype: torch.dtype | None = None,
    ) -> None:
        """Move the parameters, compile the step and meet the other ranks."""
        if reduction not in ("mean", "sum"):
            raise ValueError(f'reduction is "mean" or "sum", got {reduction!r}')
        if max_norm is not None and not max_norm > 0:
            raise ValueError(f"max_norm is positive or None, got {max_norm!r}")
        if grad_dtype not in (None, *DTYPES):
            raise ValueError(
                f"grad_dtype is torch.float32, another real dtype or None, "
                f"got {grad_dtype!r}"
            )
        self._flats: list[Flat] = []
        self._inside: set[torch.Tensor] = set()
        super().__init__(params, defaults)
        self._reduction, self._max_norm = reduction, max_norm
        self._grad_dtype = grad_dtype
        self._num_groups = 0  # that are laid out
        self._scale = 1.0  # of the gradients as they are
        self._world = world_of(group)
        self._chooser = refusing(
            self._world, "options", Chooser, self._world, schedule, tune, tune_time_s
        )
        self._shared = Shared(self._world)
        self._shared.agree("schedules", self._chooser.text)
        self._vote = Vote(self._shared)
        self._num_calls = 0
        self.total_norm: float | None = None
        self._lay_out()
        self._chooser.refuse_misfit(self._programs())

    @abstractmethod
    def _program(self, group: ParamGroup, variant: Variant) -> Program:
        """Return the program of a step; equal options give the same program."""

    @abstractmethod
    def _scalars(self, group: ParamGroup, age: int) -> dict[str, float]:
        """Return its scalars for parameters that have taken `age` steps."""

    def __getstate__(self) -> NoReturn:
        """Refuse: the memory is shared with other processes."""
        raise TypeError("an optimizer is not copied; use state_dict()")

    def _lay_out(self) -> None:
        """Move the parameters of all groups that are not moved yet."""
        new = self.param_groups[self._num_groups :]
        self._inside.update(p for g in new for p in g["params"] if p.requires_grad)
        everything = list(self._parameters())
        self._frozen = [p for p in everything if p not in self._inside]
        refuse_kinds(self._inside)
        refuse_overlaps(everything)
        refuse_wrapped(everything)
        for param in self._inside:
            if self._grad_dtype and param.itemsize == 2:
                set_grad_dtype(param, self._grad_dtype)
        kinds = [
            (tuple(p.shape), p.dtype, p in self._inside and Kind.of(p))
            for p in everything
        ]
        self._shared.agree("parameters", str(kinds))
        for number, group in enumerate(new, start=self._num_groups):
            inside = [param for param in group["params"] if param in self._inside]
            for param in group["params"]:
                if param not in self._inside:
                    self._shared.broadcast(param)
            for kind, params in by_kind(inside).items():
                flat = Flat(params, kind, number, self._world, self._shared)
                self._flats.append(flat)
                self._bound(flat)
        self._num_groups = len(self.param_groups)
        self._vote.forget()
        self._copied_bytes = [0] * len(self._flats)

    def _parameters(self) -> Iterator[torch.Tensor]:
        return (param for group in self.param_groups for param in group["params"])

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group, on every rank, as torch's optimizers do."""
        refuse_options(self.defaults | param_group)
        super().add_param_group(param_group)
        if hasattr(self, "_shared"):
            self._lay_out()

    def _thaw(self, params: Iterable[torch.Tensor]) -> None:
        """Lay everything out anew, with parameters that were frozen."""
        state = self.state | whole_state(self._flats, counts_steps=self._counts_steps)
        self._shared.wait()  # everybody has read
        self._inside.update(params)
        self._flats, self._num_groups = [], 0
        self._lay_out()
        self._take_state(state)

    def _exchange(self, flat: Flat) -> tuple[str, float]:
        """Return how gradients are reduced, and what to multiply the result by."""
        reduction, factor = flat.kind.exchange(self._reduction, self._world.size)
        return reduction, factor / self._vote.scale

    def _variant(self, flat: Flat, *, is_masked: bool = False) -> Variant:
        """Return what the step of some parameters is now."""
        reduction, factor = self._exchange(flat)
        is_reduced = self._max_norm is not None
        return Variant(
            dtype=flat.kind.dtype,
            grad_dtype=flat.kind.grad_dtype,
            reduction=reduction,
            maximize=self.param_groups[flat.group]["maximize"],
            is_scaled=is_reduced or factor != 1,
            is_reduced=is_reduced,
            is_masked=is_masked,
        )

    def _programs(self) -> Iterator[Program]:
        """Yield the programs of every step that may come, the next ones first."""
        for masked, scaled in product((False, True), repeat=2):
            for flat in self._flats:
                variant = self._variant(flat, is_masked=masked)
                variant = replace(variant, is_scaled=scaled or variant.is_scaled)
                yield self._program(self.param_groups[flat.group], variant)

    def _bound(
        self, flat: Flat, variant: Variant | None = None, *, tunes: bool = False
    ) -> Bound:
        """Return the step of some parameters, compiled and bound to their buffers.

        tunes  every rank calls this, so they may tune it together first
        """
        group = self.param_groups[flat.group]
        program = self._program(group, variant or self._variant(flat))
        bound = flat.bound.get(program)
        if bound is None:
            bound = flat.bind(program, self._chooser.first(program, flat.numel))
        if tunes and bound.choice.is_open:
            bound = flat.bind(program, self._chooser.tuned(program, flat.numel))
        return bound

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduce the gradients and update the parameters, together with all ranks.

        Blocks  until every rank steps
        Raises  RanksDisagree if hyperparameters differ; PeerFailed, CollectiveTimeout
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._shared.num_calls = 0
            given = getattr(self, "grad_scale", None)  # GradScaler sets it
            self._scale = 1.0 if given is None else float(given)
            self._step()
        self._num_calls = self._shared.num_calls
        self._copied_bytes = [flat.take_copied_bytes() for flat in self._flats]
        return loss

    def _step(self) -> None:
        """Take a step; first all ranks vote if one of them has news.

        A rank without news starts the step at once.  Where another starts a vote, their
        arrivals tell both, and then all vote: so the usual step needs no vote.
        """
        vote = self._vote
        mine = [has for flat in self._flats for has in flat.collect()]
        mine += [param.grad is not None for param in self._frozen]
        has_inf = bool(getattr(self, "found_inf", False))  # GradScaler sets it
        if not vote.mine:
            refuse_wrapped(self._parameters())
        try:
            if not vote.has_news(mine, self._scale, has_inf=has_inf):
                self._run()
                return
            infs, _ = vote.hold(mine, self._scale, has_inf=has_inf)
        except RanksDisagree:
            infs, news = vote.hold(mine, self._scale, has_inf=has_inf)
            if not news:
                raise  # they differ in something else
        if infs or not any(vote.present):
            return
        of_frozen = vote.present[len(mine) - len(self._frozen) :]
        thawed = list(compress(self._frozen, of_frozen))
        if thawed:
            self._thaw(thawed)
            self._step()
        else:
            self._run()

    def _run(self) -> None:
        """Run the programs of all groups on the parameters that have gradients."""
        self._rescale()
        clip = 1.0 if self._max_norm is None else self._clip(self._max_norm)
        present = iter(self._vote.present)
        written: list[torch.Tensor] = []
        for flat in self._flats:
            taking = [number for number in range(len(flat.params)) if next(present)]
            scalars_at = partial(self._scalars, self.param_groups[flat.group])
            for scalars, numbers in flat.passes(taking, scalars_at):
                is_masked = len(numbers) < len(flat.params)
                variant = self._variant(flat, is_masked=is_masked)
                bound = flat.last = self._bound(flat, variant, tunes=True)
                if is_masked:
                    flat.set_mask(bound, numbers)
                if variant.is_scaled:
                    scalars["scale"] = clip * self._exchange(flat)[1]
                self._shared.num_calls += 1
                bound.call(**scalars)
            for number in taking:
                flat.ages[number] += 1
                written.append(flat.params[number])
        torch.autograd.graph.increment_version(written)

    def _rescale(self) -> None:
        """Bring the gradients to the scale that all ranks agreed on."""
        if self._scale != self._vote.scale:
            for param in self._parameters():
                if param.grad is not None:
                    param.grad.mul_(self._vote.scale / self._scale)
            self._scale = self._vote.scale

    def _clip(self, max_norm: float) -> float:
        """Reduce the gradients; return by what to scale them so that max_norm holds."""
        square = 0.0
        for flat in self._flats:
            reduction, factor = self._exchange(flat)
            program = reduced(reduction, flat.kind.grad_dtype)
            if program not in flat.bound:
                flat.bind(program, self._chooser.fixed(program, one_kernel))
            self._shared.num_calls += 1
            flat.bound[program].call()
            square += (factor * flat.piece_norm()) ** 2
        self.total_norm = math.sqrt(self._shared.sum(square))
        scale = max_norm / (self.total_norm + 1e-6)
        return 1.0 if scale >= 1 else scale  # NaN stays, as in clip_grad_norm_

    def agree_on_inf(self, found: bool) -> bool:
        """Return whether any rank found an inf; every rank calls it, for GradScaler."""
        return bool(self._shared.sum(found))

    def state_dict(self) -> dict[str, Any]:
        """Return what torch's optimizer would: whole tensors; needs no other rank."""
        kept = self.state
        self.state = defaultdict(
            dict, kept | whole_state(self._flats, counts_steps=self._counts_steps)
        )
        try:
            return super().state_dict()
        finally:
            self.state = kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state_dict of ours, at any number of ranks, or of torch's.

        Blocks  until every rank loads
        """
        self._shared.wait()  # nobody reads our pieces any more
        hooked: list[dict[str, Any]] = []
        hook = self.register_load_state_dict_pre_hook(lambda _, it: hooked.append(it))
        try:
            super().load_state_dict(state_dict)
        finally:
            hook.remove()
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        # as the user's hooks left it: torch has rounded it to the parameters' dtype
        state, groups = hooked[0]["state"], hooked[0]["param_groups"]
        numbers = chain.from_iterable(group["params"] for group in groups)
        each = zip(self._parameters(), numbers, strict=True)
        self._take_state({param: state[n] for param, n in each if n in state})
        self._shared.wait()  # everybody's pieces are there

    def _take_state(self, state: Mapping[torch.Tensor, dict[str, Any]]) -> None:
        """Keep our pieces of whole state, and what belongs to frozen parameters."""
        for flat in self._flats:
            self._bound(flat)  # makes room
            load_state(flat, state)
        of_frozen = {p: state[p] for p in self._frozen if p in state}
        self.state = defaultdict(dict, of_frozen)

    def explain(self) -> Explanation:
        """Say what was applied, and what the last step took; print it."""
        return Explanation(
            optimizer=type(self).__name__,
            ranks=self._world.size,
            reduction=self._reduction,
            max_norm=self._max_norm,
            num_calls=self._num_calls,
            num_frozen=len(self._frozen),
            groups=tuple(
                GroupExplanation.of(flat, flat.last or self._bound(flat), copied_bytes)
                for flat, copied_bytes in zip(
                    self._flats, self._copied_bytes, strict=True
                )
            ),
        )

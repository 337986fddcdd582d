"""What all optimizers share: layout, agreement between ranks, state, explanation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import compress
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from coconet.errors import RanksDisagree
from coconet.ir import Program
from coconet.runtime.world import World
from coconet.schedule import Schedule
from coconet.torch.dist import world_of
from coconet.torch.explain import Explanation, GroupExplanation
from coconet.torch.flat import Bound, Flat
from coconet.torch.refuse import refuse_kinds, refuse_overlaps, refuse_wrapped
from coconet.torch.schedule import Scheduler, fused, one_kernel, schedule_of
from coconet.torch.shared import Shared, compiled
from coconet.torch.state import load_state, whole_state
from coconet.torch.vote import Vote
from coconet.torch.workloads import Variant, reduced

__all__ = ["Optimizer"]

ParamGroup = dict[str, Any]


class Optimizer(torch.optim.Optimizer, ABC):
    """The base of the optimizers; every rank makes the same and calls the same.

    group      a torch ProcessGroup, a World, or None: the default one; see world_of
    reduction  of the gradients over ranks: "mean", as DistributedDataParallel, or "sum"
    max_norm   scale the reduced gradient down to this 2-norm at every step;
               clip_grad_norm_ before the step would see one rank's gradient only
    schedule   from the step's program to a schedule of it

    Parameters take the values of rank 0.  Their memory, and that of their gradients,
    is moved into symmetric memory.  A step needs every rank: a gradient that is None on
    some ranks counts as zeros, and one that is None on all leaves its parameter alone.
    state_dict() needs no other rank; load_state_dict() needs all.

    Fields  total_norm  of the reduced gradient in the last step, if max_norm is given
    Raises  UnsupportedError for parameters that are not f32 on the CPU; ProgramError if
            they are wrapped in DistributedDataParallel or share memory; RanksDisagree
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
        schedule: Scheduler = fused,
    ) -> None:
        """Move the parameters, compile the step and meet the other ranks."""
        if reduction not in ("mean", "sum"):
            raise ValueError(f'reduction is "mean" or "sum", got {reduction!r}')
        if max_norm is not None and not max_norm > 0:
            raise ValueError(f"max_norm is positive or None, got {max_norm!r}")
        self._flats: list[Flat] = []
        self._inside: set[torch.Tensor] = set()
        super().__init__(params, defaults)
        self._reduction, self._max_norm, self._schedule = reduction, max_norm, schedule
        self._world = world_of(group)
        self._shared = Shared(self._world)
        self._vote = Vote(self._shared)
        self._compiled: dict[Program, tuple[Any, Schedule]] = {}
        self._num_calls = 0
        self.total_norm: float | None = None
        self._lay_out()

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
        new = self.param_groups[len(self._flats) :]
        self._inside.update(p for g in new for p in g["params"] if p.requires_grad)
        everything = list(self._parameters())
        self._frozen = [p for p in everything if p not in self._inside]
        refuse_kinds(self._inside)
        refuse_overlaps(everything)
        refuse_wrapped(everything)
        kinds = [(tuple(p.shape), p.dtype, p in self._inside) for p in everything]
        self._shared.check_alike("parameters", str(kinds))
        for group in new:
            inside = [param for param in group["params"] if param in self._inside]
            for param in group["params"]:
                if param not in self._inside:
                    self._shared.broadcast(param)
            self._flats.append(Flat(inside, self._world, self._shared))
            self._bound(self._flats[-1], group)
        self._vote.forget()
        self._copied_bytes = [0] * len(self._flats)

    def _parameters(self) -> Iterator[torch.Tensor]:
        return (param for group in self.param_groups for param in group["params"])

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group, on every rank, as torch's optimizers do."""
        super().add_param_group(param_group)
        if hasattr(self, "_shared"):
            self._lay_out()

    def _thaw(self, params: Iterable[torch.Tensor]) -> None:
        """Lay everything out anew, with parameters that were frozen."""
        state = self.state | whole_state(self._flats, counts_steps=self._counts_steps)
        self._shared.wait()  # everybody has read
        self._inside.update(params)
        self._flats = []
        self._lay_out()
        self._take_state(state)

    def _bound(
        self, flat: Flat, group: ParamGroup, *, is_masked: bool = False
    ) -> Bound:
        """Return the step of a group, compiled and bound to its buffers."""
        variant = Variant(
            reduction=self._reduction,
            maximize=group["maximize"],
            is_scaled=self._max_norm is not None,
            is_masked=is_masked,
        )
        return self._bound_to(flat, self._program(group, variant), self._schedule)

    def _bound_to(self, flat: Flat, program: Program, scheduler: Scheduler) -> Bound:
        if program not in flat.bound:
            if program not in self._compiled:
                schedule = schedule_of(program, scheduler)
                step = compiled(schedule.result, self._world)
                self._compiled[program] = step, schedule
            flat.bind(program, *self._compiled[program])
        return flat.bound[program]

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
            self._unscale()
            self._shared.num_calls = 0
            self._step()
        self._num_calls = self._shared.num_calls
        self._copied_bytes = [flat.take_copied_bytes() for flat in self._flats]
        return loss

    def _unscale(self) -> None:
        """Divide the gradients by the scale that GradScaler left to us."""
        scale: torch.Tensor | None = getattr(self, "grad_scale", None)
        if scale is not None:
            inverse = scale.double().reciprocal().float()
            for param in self._parameters():
                if param.grad is not None:
                    param.grad.mul_(inverse)

    def _step(self) -> None:
        """Take a step; first all ranks vote if one of them has news.

        A rank without news starts the step at once.  Where another starts a vote, their
        arrivals tell both, and then all vote: so the usual step needs no vote.
        """
        vote = self._vote
        mine = [has for flat in self._flats for has in flat.collect()]
        mine += [param.grad is not None for param in self._frozen]
        has_inf = bool(getattr(self, "found_inf", False))
        if not vote.mine:
            refuse_wrapped(self._parameters())
        try:
            if not vote.has_news(mine, has_inf=has_inf):
                self._run()
                return
            infs, _ = vote.hold(mine, has_inf=has_inf)
        except RanksDisagree:
            infs, news = vote.hold(mine, has_inf=has_inf)
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
        scale = {} if self._max_norm is None else {"scale": self._clip()}
        present = iter(self._vote.present)
        written: list[torch.Tensor] = []
        for flat, group in zip(self._flats, self.param_groups, strict=True):
            taking = [number for number in range(len(flat.params)) if next(present)]
            scalars_at = partial(self._scalars, group)
            for scalars, numbers in flat.passes(taking, scalars_at):
                is_masked = len(numbers) < len(flat.params)
                bound = self._bound(flat, group, is_masked=is_masked)
                if is_masked:
                    flat.set_mask(bound, numbers)
                self._shared.num_calls += 1
                bound.call(**scalars, **scale)
            for number in taking:
                flat.ages[number] += 1
                written.append(flat.params[number])
        torch.autograd.graph.increment_version(written)

    def _clip(self) -> float:
        """Reduce the gradients; return by what to scale them so that max_norm holds."""
        assert self._max_norm is not None
        square = 0.0
        for flat in self._flats:
            bound = self._bound_to(flat, reduced(self._reduction), one_kernel)
            self._shared.num_calls += 1
            bound.call()
            square += flat.piece_norm() ** 2
        self.total_norm = math.sqrt(self._shared.sum([square])[0])
        scale = self._max_norm / (self.total_norm + 1e-6)
        return 1.0 if scale >= 1 else scale  # NaN stays, as in clip_grad_norm_

    def agree_on_inf(self, found: bool) -> bool:
        """Return whether any rank found an inf; every rank calls it, for GradScaler."""
        return bool(self._shared.sum([found])[0])

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
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        self._take_state(self.state)
        self._shared.wait()  # everybody's pieces are there

    def _take_state(self, state: Mapping[torch.Tensor, dict[str, Any]]) -> None:
        """Keep our pieces of whole state, and what belongs to frozen parameters."""
        for flat, group in zip(self._flats, self.param_groups, strict=True):
            self._bound(flat, group)  # makes room
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
                GroupExplanation.of(flat, self._bound(flat, group), copied_bytes)
                for flat, group, copied_bytes in zip(
                    self._flats, self.param_groups, self._copied_bytes, strict=True
                )
            ),
        )

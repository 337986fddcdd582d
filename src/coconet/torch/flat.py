"""Parameters of one kind end to end in symmetric memory, and what belongs to them.

Parameters and gradients are views of two flat buffers that every rank can address.
Optimizer state lies in pieces: on each rank those elements that it updates.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coconet.backends.eager.tensors import as_tensor
from coconet.ir import Domain, Layout, Program, Sliced, TensorType
from coconet.runtime.world import World
from coconet.schedule import Schedule
from coconet.torch.choose import Choice
from coconet.torch.kind import Kind
from coconet.torch.refuse import refuse_kinds
from coconet.torch.shared import Shared
from coconet.torch.workloads import MASTER

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Bound", "Flat"]


@dataclass(frozen=True, slots=True)
class State:
    """One kind of optimizer state: `own` is what this rank keeps.

    pieces  (rank, lo, hi, offset) of those that make up the whole: elements [lo, hi)
            lie at this offset of that rank's segment
    """

    own: NDArray[Any]
    pieces: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A program's step, bound to the buffers of a Flat: call it with scalars."""

    choice: Choice
    call: Any

    @property
    def schedule(self) -> Schedule:
        """The schedule of the program."""
        return self.choice.schedule


class Flat:
    """See the module; `params` in order, of one optimizer's group.

    Fields  group   its number
            kind    of the parameters
            numel   elements
            slots   where each parameter's gradient belongs
            ages    how many steps each parameter has taken
            bound   programs bound to these buffers
            last    of them in the last step; None: there was none
            copied_bytes  of gradients and parameters that lay elsewhere, so far

    Blocks  until every rank makes the same
    Raises  UnsupportedError, SharedMemoryFull
    """

    def __init__(
        self,
        params: Sequence[torch.Tensor],
        kind: Kind,
        group: int,
        world: World,
        shared: Shared,
    ) -> None:
        """Move the parameters, and give every rank the values of rank 0."""
        self.params, self.kind, self.group = list(params), kind, group
        self._world, self._shared = world, shared
        ends = accumulate((param.numel() for param in self.params), initial=0)
        self._spans = list(pairwise(ends))
        self.numel = self._spans[-1][1] if self._spans else 0
        self.ages = [0] * len(self.params)
        self.copied_bytes = 0
        self.bound: dict[Program, Bound] = {}
        self.last: Bound | None = None
        self.states: dict[str, State] = {}
        self._arrays = {
            "p": world.pool.empty((self.numel,), kind.dtype.numpy),
            "g": world.pool.empty((self.numel,), kind.grad_dtype.numpy),
        }
        self._arrays["g"].fill(0)
        self._strides = [torch.empty_like(param).stride() for param in self.params]
        self._values = self._views(self._arrays["p"])
        self.slots = self._views(self._arrays["g"])
        self._addresses = [value.data_ptr() for value in self._values]
        for number in range(len(self.params)):
            self._move_value(number)
        shared.take_from_rank_0(self._arrays["p"])
        self.copied_bytes = 0
        self._watch_gradients()

    def _views(self, flat: NDArray[Any]) -> list[torch.Tensor]:
        """Return a flat array as the parameters, each in its memory format."""
        whole = as_tensor(flat)
        return [
            whole.as_strided(param.size(), strides, lo)
            for param, strides, (lo, _) in zip(
                self.params, self._strides, self._spans, strict=True
            )
        ]

    def _move_value(self, number: int) -> None:
        param, value = self.params[number], self._values[number]
        refuse_kinds([param], dtypes=[value.dtype])
        value.copy_(param.detach())
        param.data = value
        self.copied_bytes += value.nbytes

    # ---- gradients ----

    def _watch_gradients(self) -> None:
        """Have autograd bring each gradient to its slot as soon as it is complete."""
        this = weakref.ref(self)

        def hook_of(number: int) -> Callable[[torch.Tensor], None]:
            def hook(param: torch.Tensor) -> None:
                flat, grad = this(), param.grad
                # with create_graph=True the graph hangs on it: it moves when we step
                if flat and grad is not None and not grad.requires_grad:
                    flat.move_gradient(number)

            return hook

        params: list[Any] = self.params
        handles = [
            param.register_post_accumulate_grad_hook(hook_of(number))
            for number, param in enumerate(params)
            if param.requires_grad
        ]
        weakref.finalize(self, _remove, handles).atexit = False

    def move_gradient(self, number: int) -> None:
        """Bring one gradient to its slot."""
        param, slot = self.params[number], self.slots[number]
        grad = param.grad
        if grad is None or grad is slot:
            return
        refuse_kinds([grad], "gradient", [slot.dtype])
        slot.copy_(grad.detach())
        param.grad = slot
        self.copied_bytes += slot.nbytes

    def collect(self) -> list[bool]:
        """Bring everything to its place; return which parameters have gradients.

        The slots of the others are 0.
        """
        for number, param in enumerate(self.params):
            if param.data_ptr() != self._addresses[number]:
                self._move_value(number)
            if param.grad is not self.slots[number]:
                self.move_gradient(number)
                if param.grad is None:
                    self.slots[number].zero_()
        return [param.grad is not None for param in self.params]

    def take_copied_bytes(self) -> int:
        """Return and forget how many bytes of gradients lay elsewhere."""
        copied_bytes, self.copied_bytes = self.copied_bytes, 0
        return copied_bytes

    def piece_norm(self) -> float:
        """Return the 2-norm of this rank's piece of the reduced gradient."""
        linalg: Any = torch.linalg
        piece = as_tensor(self._arrays["a"])
        return float(linalg.vector_norm(piece, dtype=torch.float64))

    # ---- programs ----

    def bind(self, program: Program, choice: Choice) -> Bound:
        """Bind a compiled program to the buffers; state that it lacks begins as 0.

        Blocks until every rank does, if state is lacking.
        """
        tensors = choice.schedule.result.tensors
        missing = {t.name: t.type for t in tensors if t.name not in self._arrays}
        for name in [name for name in ("a", "mask") if name in missing]:
            self._arrays[name] = self._empty(missing.pop(name))
        if missing:
            self._add_states(missing)
        arrays = {tensor.name: self._arrays[tensor.name] for tensor in tensors}
        call = choice.step.bind(sizes={"N": self.numel}, **arrays)
        bound = self.bound[program] = Bound(choice, call)
        return bound

    def _add_states(self, types: Mapping[str, TensorType]) -> None:
        made = {name: self._empty(type_) for name, type_ in types.items()}
        for array in made.values():
            array.fill(0)
        offsets = self._shared.offsets(list(made.values()))
        for column, (name, array) in enumerate(made.items()):
            layout = types[name].layout
            is_cut = isinstance(layout, Sliced)
            ranks = range(self._world.size) if is_cut else [self._world.rank]
            pieces = (
                (rank, *self._piece(layout, rank), offsets[rank][column])
                for rank in ranks
            )
            self._arrays[name] = array
            self.states[name] = State(array, tuple(pieces))

    def _empty(self, type_: TensorType) -> NDArray[Any]:
        lo, hi = self._piece(type_.layout, self._world.rank)
        return self._world.pool.empty((hi - lo,), type_.dtype.numpy)

    def _piece(self, layout: Layout, rank: int) -> tuple[int, int]:
        """Return [lo, hi), what a rank holds of a buffer."""
        if not isinstance(layout, Sliced):
            return 0, self.numel
        return Domain.of((self.numel,), layout.cut).piece(rank, self._world.size)

    def passes(
        self, taking: Iterable[int], scalars_at: Callable[[int], dict[str, float]]
    ) -> list[tuple[dict[str, float], list[int]]]:
        """Return the parameters that take a step, those with equal scalars together."""
        by_scalars: list[tuple[dict[str, float], list[int]]] = []
        taking = sorted(taking, key=self.ages.__getitem__)
        for age, numbers in groupby(taking, key=self.ages.__getitem__):
            scalars = scalars_at(age)
            if by_scalars and by_scalars[-1][0] == scalars:
                by_scalars[-1][1].extend(numbers)
            else:
                by_scalars.append((scalars, list(numbers)))
        return by_scalars

    def set_mask(self, bound: Bound, numbers: Iterable[int]) -> None:
        """Let a masked program change these parameters only."""
        mask = self._arrays["mask"]
        layout = bound.schedule.result["mask"].type.layout
        lo, hi = self._piece(layout, self._world.rank)
        mask.fill(False)
        for number in numbers:
            start, end = self._spans[number]
            mask[max(start, lo) - lo : max(min(end, hi) - lo, 0)] = True

    def restore(self) -> None:
        """Allow steps again after a fault."""
        for bound in self.bound.values():
            bound.call.restore()

    # ---- state ----

    def state_of_each(self) -> list[dict[str, torch.Tensor]]:
        """Return the whole state of each parameter; asks nothing of the other ranks."""
        found: list[dict[str, torch.Tensor]] = [{} for _ in self.params]
        for name, state in self.states.items():
            whole = np.empty((self.numel,), state.own.dtype)
            for rank, lo, hi, offset in state.pieces:
                self._world.read(rank, offset, whole[lo:hi])
            for kept, view in zip(found, self._views(whole), strict=True):
                kept[name] = view.clone()
        for kept, param in zip(found, self.params, strict=True):
            if MASTER in kept:  # as Step takes the weights
                is_copy = kept[MASTER].to(param.dtype) == param
                kept[MASTER] = kept[MASTER].where(is_copy, param.detach().float())
        return found

    def load_state(self, given: Sequence[Mapping[str, Any]]) -> None:
        """Keep this rank's pieces of each parameter's state; what is missing is 0."""
        for name, state in self.states.items():
            whole = np.zeros((self.numel,), state.own.dtype)
            for kept, view in zip(given, self._views(whole), strict=True):
                if kept.get(name) is not None:
                    view.copy_(kept[name])
            for rank, lo, hi, _ in state.pieces:
                if rank == self._world.rank:
                    state.own[:] = whole[lo:hi]


def _remove(handles: Iterable[Any]) -> None:
    for handle in handles:
        handle.remove()

"""A compiled program with its tensors fixed: what runs at every step."""

from __future__ import annotations

import hashlib
import math
import operator
import struct
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coconet.backends.arguments import as_tensor, call_scalars, stored_shape
from coconet.backends.c.inboxes import inbox_rows
from coconet.backends.c.refuse import refusing
from coconet.backends.c.words import Knobs, plan_words, used_consts
from coconet.errors import RunError, UnsupportedError
from coconet.ir import bind_shape
from coconet.plan import Apply, Buffer, Plan, Role, Rounds, Space, Tile
from coconet.plan.evaluate import ScalarEvaluator
from coconet.runtime.executable import Call, Kernel
from coconet.runtime.library import MAX_SCALARS
from coconet.runtime.world import World

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["BoundStep"]

THREAD_ELEMENTS = 1 << 16  # a thread that sleeps is awake after some 10 us


class BoundStep:
    """One plan on fixed tensors; call it with the scalars.

    Fields  staged_bytes  copied at every call because a tensor is not in symmetric
                          memory, or not contiguous
    """

    def __init__(
        self,
        plan: Plan,
        world: World,
        kernel: Kernel,
        *,
        fingerprint: int,
        knobs: Knobs,
        sizes: Mapping[str, int],
        wants_torch: bool,
    ) -> None:
        """Allocate what the plan needs besides its arguments; see CompiledStep.bind."""
        if len(plan.scalars) > MAX_SCALARS:
            raise UnsupportedError(
                f"program {plan.name!r} has too many scalars",
                got=len(plan.scalars),
                need=f"at most {MAX_SCALARS}",
            )
        self._plan, self._world, self._sizes = plan, world, sizes
        self._wants_torch = wants_torch
        self._inboxes = inbox_rows(plan, sizes, knobs, world.rank)
        self._rounds = {} if self._inboxes else _rounds(plan, sizes, knobs)
        text = _description(plan, sizes, knobs)
        text += "\nby inboxes" if self._inboxes else ""
        shapes = hashlib.sha256(text.encode()).digest()
        self._call = Call(
            world,
            kernel,
            num_buffers=len(plan.buffers),
            words=plan_words(plan, sizes, world.rank, knobs),
            num_scalars=len(plan.scalars),
            num_consts=len(plan.consts),
            fingerprint=(fingerprint, int.from_bytes(shapes[:8], "little"), 0, 0),
            text=text,
            waits=plan.waits,
            scalars=tuple(zip(plan.scalars, plan.scalar_kinds, strict=True)),
            threads=knobs.threads or _threads(plan, world, sizes),
        )
        self.staged_bytes = 0
        # Another thread must not touch this step's words and pointers during a call.
        self._busy = threading.Lock()
        self._turn = 0  # calls that held it; who sees it change waited for one
        self._given: tuple[Any, ...] = ()
        self._lay: tuple[object, ...] = ()
        self._arrays: tuple[Array, ...] = ()
        self._copies_in: list[tuple[Array, Array]] = []
        self._copies_out: list[tuple[Array, Array]] = []
        self._out: Any = None  # what a call returns, unless its results are new
        self._is_direct = False  # a call copies and allocates nothing
        self._owned: dict[str, Array] = {}
        numbered = list(enumerate(plan.buffers))
        self._tensors = [(n, b) for n, b in numbered if b.role is not Role.SCRATCH]
        self._results = [(n, b) for n, b in numbered if b.role is Role.RESULT]
        self._fresh = self._results
        for number, buffer in numbered:
            if buffer.role is Role.SCRATCH:
                self._point(number, buffer, self._own(buffer))
        self._prepare_scalars()
        self._call.set_inboxed(list(self._inboxes.values()))

    def _holds(self, tensors: Mapping[str, Any]) -> bool:
        """Whether the step is placed on these very objects, where they lie now."""
        rows = zip(self._given, self._lay, tensors.values(), strict=True)
        return all(
            placed is given and lay == _memory(given) for placed, lay, given in rows
        )

    def place(self, arrays: Mapping[str, Array], *, keep: Mapping[str, Any]) -> None:
        """Point the arguments at these arrays, of the shapes that the step is bound to.

        Results among them are written there; all others are new at every call.
        keep holds the caller's objects, by name. They and their memory, which a tensor
        may leave for other memory, stay alive until the next placing.
        """
        self._given = (None,) * len(keep)  # until it succeeds
        self._lay = tuple(map(_memory, keep.values()))
        self._arrays = tuple(arrays.values())
        self.staged_bytes = 0
        self._copies_in.clear()
        self._copies_out.clear()
        for number, buffer in self._tensors:
            if buffer.name in arrays:
                self._place(number, buffer, arrays[buffer.name])
        outs = [keep[b.name] for _, b in self._results if b.name in keep]
        self._out = tuple(outs) if len(outs) > 1 else outs[0] if outs else None
        self._fresh = [] if outs else self._results
        self._is_direct = not (self._copies_in or self._copies_out or self._fresh)
        self._given = tuple(keep.values())

    def _prepare_scalars(self) -> None:
        """Make ready what a call does with its scalars: it must take a microsecond."""
        plan, call = self._plan, self._call
        self._is_int = [kind == "i64" for kind in plan.scalar_kinds]
        self._by_name = _picker(plan.scalars)
        self._scalars = struct.Struct("".join("dq"[i] for i in self._is_int))
        self._scalar_memory = call.scalars
        self._evaluate = ScalarEvaluator(plan.consts, self._sizes)
        used = used_consts(plan)
        self._pick_consts = _picker(used)
        self._consts = struct.Struct("".join("dq"[plan.consts[n].is_int] for n in used))
        self._const_memory = call.consts

    def _place(self, number: int, buffer: Buffer, array: Array) -> None:
        is_shared = self._is_shared(buffer)
        inside = self._world.pool.offset_of(array.ctypes.data, max(array.nbytes, 1))
        fits_c = array.flags.c_contiguous and array.flags.aligned
        if fits_c and (inside is not None or not is_shared):
            self._point(number, buffer, array)
            return
        if fits_c and buffer.name in self._rounds:
            self._point_in_rounds(number, buffer, array)
            return
        staging = self._own(buffer)
        is_result = buffer.role is Role.RESULT
        if not is_result:
            self._copies_in.append((staging, array))
            self.staged_bytes += array.nbytes
        if is_result or buffer.name in self._plan.updated:
            self._copies_out.append((array, staging))
            self.staged_bytes += array.nbytes
        self._point(number, buffer, staging)

    def _point_in_rounds(self, number: int, buffer: Buffer, array: Array) -> None:
        """Point to private memory, and to slots through which peers reach it."""
        rounds, pool = self._rounds[buffer.name], self._world.pool
        key = f"{buffer.name}.slots"
        if key not in self._owned:
            self._owned[key] = pool.empty((rounds.size,), buffer.dtype.numpy)
        slots = self._owned[key].ctypes.data - pool.base
        self._call.set_private(number, array.ctypes.data, slots=slots)
        copied = sum(len(rounds.parts[q]) for q in rounds.copied(self._world.rank))
        self.staged_bytes += copied * buffer.dtype.itemsize

    def _own(self, buffer: Buffer) -> Array:
        """Return this step's own memory for a buffer, the same at every call."""
        if buffer.name not in self._owned:
            self._owned[buffer.name] = self._allocate(buffer)
        return self._owned[buffer.name]

    def _allocate(self, buffer: Buffer) -> Array:
        world = self._world
        shape = stored_shape(buffer, self._sizes, world.rank, world.size)
        if self._is_shared(buffer):
            return world.pool.empty(shape, buffer.dtype.numpy)
        return np.empty(shape, buffer.dtype.numpy)

    def _is_shared(self, buffer: Buffer) -> bool:
        """Whether peers address the buffer itself."""
        return buffer.space is Space.SYMMETRIC and buffer.name not in self._inboxes

    def _point(self, number: int, buffer: Buffer, array: Array) -> None:
        address = array.ctypes.data
        if not self._is_shared(buffer):
            self._call.set_private(number, address)
            return
        self._call.set_symmetric(number, address - self._world.pool.base)

    def __call__(self, *given: float | int, **named: float | int) -> Any:
        """Run with these scalars, by position or name.  See CompiledStep."""
        turn = self._turn
        if self._busy.locked():
            raise self._world.refusal()
        # Ctrl-C cannot come between taking the lock and `with` knowing of it.
        with self._busy:
            if turn != self._turn:
                raise self._world.refusal()
            self._turn = turn + 1
            return self._run(given, named)

    def call_on(
        self,
        tensors: Mapping[str, Any],
        to_arrays: Callable[[Mapping[str, Any]], Mapping[str, Array]],
        given: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Any:
        """Place the step on these tensors, if it is not there already, and run it."""
        turn = self._turn
        if self._busy.locked():
            raise self._world.refusal()
        with self._busy:
            if turn != self._turn:
                raise self._world.refusal()
            self._turn = turn + 1
            self._call.check()
            if not self._holds(tensors):
                refusing(
                    self._world,
                    self._plan.name,
                    lambda: self.place(to_arrays(tensors), keep=tensors),
                )
            return self._run(given, named)

    def _run(self, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        try:
            scalars = self._by_name(named)
            if given or len(named) != len(scalars) or bool in map(type, scalars):
                scalars = self._checked(given, named)
            self._scalars.pack_into(self._scalar_memory, 0, *scalars)
        except (KeyError, struct.error):
            scalars = self._checked(given, named)
            self._scalars.pack_into(self._scalar_memory, 0, *scalars)
        # read back as f64 and i64, whatever kind of number was passed
        values = self._evaluate(self._scalars.unpack_from(self._scalar_memory))
        self._consts.pack_into(self._const_memory, 0, *self._pick_consts(values))
        if not self._is_direct:
            return self._call_with_copies()
        self._call()
        return self._out

    def _checked(
        self, given: Sequence[Any], named: Mapping[str, Any]
    ) -> Sequence[float | int]:
        plan = self._plan
        names, is_int = plan.scalars, self._is_int
        return refusing(
            self._world, plan.name, call_scalars, names, is_int, given, named
        )

    def _call_with_copies(self) -> Any:
        for staging, array in self._copies_in:
            np.copyto(staging, array)
        results = refusing(self._world, self._plan.name, self._allocate_results)
        for (number, buffer), array in zip(self._fresh, results, strict=True):
            self._point(number, buffer, array)
        self._call_and_copy_out()
        if not results:
            return self._out
        if self._wants_torch:
            results = [as_tensor(result) for result in results]
        return tuple(results) if len(results) > 1 else results[0]

    def _call_and_copy_out(self) -> None:
        try:
            self._call()
            for array, staging in self._copies_out:
                np.copyto(array, staging)
        except RunError:
            raise
        except BaseException as error:  # Ctrl-C, most likely: the peers have updated
            self._call.spoil(f"{type(error).__name__} before all results were copied")
            raise

    def _allocate_results(self) -> list[Array]:
        return [self._allocate(buffer) for _, buffer in self._fresh]

    def restore(self) -> None:
        """Allow calls again after a fault: the updated tensors were loaded again."""
        self._call.restore()


def _picker(keys: Sequence[Any]) -> Callable[[Any], Sequence[Any]]:
    """Return a fast function from a container to its items at these keys."""
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    return lambda items: [items[key] for key in keys]


def _memory(given: Any) -> object:
    """Return how a tensor lies in memory, which may change; an array stays put."""
    return (given.data_ptr(), given.stride()) if hasattr(given, "data_ptr") else None


def _threads(plan: Plan, world: World, sizes: Mapping[str, int]) -> int:
    """Return how many threads have enough to do with this rank's largest buffer."""
    shapes = (stored_shape(b, sizes, world.rank, world.size) for b in plan.buffers)
    elements = max(map(math.prod, shapes), default=0)
    return max(1, min(world.threads, elements // THREAD_ELEMENTS))


def _rounds(plan: Plan, sizes: Mapping[str, int], knobs: Knobs) -> dict[str, Rounds]:
    """Return how buffers that may be private are handed over; not those of one round.

    To copy those whole, before and after the call, takes no further wait.
    """
    found: dict[str, Rounds] = {}
    for tile in plan.body:
        if isinstance(tile, Tile) and tile.staged:
            shape = bind_shape(tile.shape, sizes)
            rounds = Rounds.of(tile, shape, plan.ranks, knobs.round_elements)
            if rounds.count > 1:
                found |= dict.fromkeys(tile.staged, rounds)
    return found


def _description(plan: Plan, sizes: Mapping[str, int], knobs: Knobs) -> str:
    """Return what a rank says about its call, for the others' messages.

    The same on every rank, although pieces may differ in size.
    """
    digest = hashlib.sha256(str(plan).encode()).hexdigest()[:12]
    tiles = (step for step in plan.body if isinstance(step, Tile))
    steps = (step for tile in tiles for step in tile.body if isinstance(step, Apply))
    counted = Counter(step.primitive for step in steps)
    counts = (f"{count} {name}" for name, count in counted.items())
    lines = [f"program {plan.name}", f"plan {digest}: {', '.join(counts) or 'copies'}"]
    for buffer in plan.with_role(Role.ARGUMENT):
        shape = list(bind_shape(buffer.shape, sizes))
        cut = "" if buffer.cut is None else f" cut by {buffer.cut!r}"
        lines.append(f"{buffer.name} {buffer.dtype}{shape}{cut}")
    if any(isinstance(step, Tile) and step.staged for step in plan.body):
        lines.insert(2, f"rounds of {knobs.round_elements} elements")
    return "\n".join(lines)

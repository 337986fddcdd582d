"""Which values share a kernel, and in which order the kernels run."""

from __future__ import annotations

from dataclasses import dataclass

from coconet.errors import InternalError
from coconet.ir import Cut, Program, Shape, Value
from coconet.ops import AllReduce, Op
from coconet.schedule import loop_cut
from coconet.schedule.legality import ancestors, loop_order, loop_shape

__all__ = ["Kernel", "kernels_of", "saved_inputs"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Values computed by one loop, in program order.

    cut  what the loop runs over: None is everything, else this rank's piece
    """

    members: tuple[Value, ...]
    cut: Cut | None

    @property
    def shape(self) -> Shape:
        """The global shape that the loop runs over, its dims as declared."""
        return loop_shape(self.members[0])

    @property
    def order(self) -> tuple[int, ...]:
        """The order in which the loop runs over the dims."""
        return loop_order(self.members[0])

    @property
    def name(self) -> str:
        """What it computes: the values that the user named."""
        named = [m.name for m in self.members if not m.name.startswith("_")]
        return ", ".join(named or [m.name for m in self.members])

    def spreads(self, value: Value) -> bool:
        """Whether this rank's piece of the value is written on every rank."""
        assert isinstance(value.op, Op)
        alone = isinstance(value.op, AllReduce) and len(self.members) == 1
        return value.op.spreads or alone


def kernels_of(program: Program) -> list[Kernel]:
    """Return the kernels in an order that respects data and updates in place.

    A kernel that reads an input's old value runs before the kernel that updates it,
    unless data forbids it: see `saved_inputs`.
    """
    kernel_of: dict[Value, Kernel] = {}
    for value in program.values:
        if value.type.is_scalar or value in kernel_of:
            continue
        fusion = program.fusion_of(value)
        members = fusion.members if fusion else (value,)
        kernel = Kernel(members, loop_cut(members[0], members))
        kernel_of |= dict.fromkeys(members, kernel)
    waiting = list(dict.fromkeys(kernel_of.values()))
    readers = {update: _early_readers(program, update) for update in program.effects}
    order: list[Kernel] = []
    pending = set(kernel_of)
    while waiting:
        kernel = _next(waiting, pending, readers)
        order.append(kernel)
        waiting.remove(kernel)
        pending -= set(kernel.members)
    return order


def _next(
    waiting: list[Kernel], pending: set[Value], readers: dict[Value, set[Value]]
) -> Kernel:
    """Return the first kernel that can run; rather one that overwrites nothing.

    pending  the values that are not computed yet
    readers  for each update, who should read the old value before
    """
    overwriting: list[Kernel] = []
    for kernel in waiting:
        others = pending - set(kernel.members)
        if any(others & set(member.inputs) for member in kernel.members):
            continue
        if not any(others & readers.get(member, set()) for member in kernel.members):
            return kernel
        overwriting.append(kernel)
    if not overwriting:
        raise InternalError("kernels wait for each other", got=waiting)
    return overwriting[0]


def _early_readers(program: Program, update: Value) -> set[Value]:
    """Return who reads the old value of what is updated, and does not need the new."""
    readers = set(program.users(update.inputs[0])) - {update}
    return readers - _needing(program, update)


def _needing(program: Program, update: Value) -> set[Value]:
    """Return the values whose kernel needs the updated value."""
    found: set[Value] = set()
    for value in program.values:
        fusion = program.fusion_of(value)
        members = fusion.members if fusion else (value,)
        if update not in members and update in ancestors(members):
            found.add(value)
    return found


def saved_inputs(program: Program, kernels: list[Kernel]) -> dict[Value, set[Value]]:
    """Return the inputs whose old value must be copied before their update.

    For each, the values that read the copy, because their kernels run after the update.
    """
    place = {m: number for number, kernel in enumerate(kernels) for m in kernel.members}
    saved: dict[Value, set[Value]] = {}
    for update in program.effects:
        target = update.inputs[0]
        late = {r for r in program.users(target) if place[r] > place[update]}
        if late:
            saved[target] = late
    return saved

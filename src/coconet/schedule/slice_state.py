"""SliceState: keep optimizer state in pieces, 1/p of the memory on each rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from coconet.errors import ScheduleError
from coconet.ir import (
    Cut,
    Program,
    Replicated,
    Rewrite,
    Rewriter,
    Sliced,
    Value,
    said,
)
from coconet.ops import AllGather, Input, Slice, Update
from coconet.schedule.legality import find, require_no_fusion
from coconet.schedule.transform import Transform, name_of

__all__ = ["SliceState"]


@dataclass(frozen=True, slots=True)
class SliceState(Transform):
    """Let each rank keep only its piece of a Replicated input.

    Before
        m_s = slice_(m, FLAT)
        m1_s = x + m_s
        m1 = update(m, all_gather(m1_s))

    After
        m = sliced(m, FLAT)
        m1_s = x + m
        m1 = update(m, m1_s)

    Legal when  every read is slice_(t, the same cut), every update is
                update(t, all_gather(x)) with x cut the same, and the updated value is
                used nowhere else
    Keeps       every bit; the caller passes pieces from then on.  A gather that nobody
                reads any more stays until `dead` drops it
    Returns     the sliced input; its update, if any
    Raises      ScheduleError
    Source      CoCoNet, ASPLOS'22 (asSlice)
    """

    name: ClassVar[str] = "slice_state"

    target: str

    def check(self, program: Program) -> None:
        """Raise ScheduleError unless all the predicates hold."""
        target = find(program, self.target, self.name)
        is_replicated = (
            isinstance(target.type.layout, Replicated) and not target.type.is_scalar
        )
        if not isinstance(target.op, Input) or not is_replicated:
            raise ScheduleError(
                "slice_state needs a Replicated input, and "
                f"{said(target)!r} is not one",
                got=target,
                need="an input of the program, Replicated",
                fix=_advice(program),
                at=target.at,
            )
        cuts = {_cut_of_use(program, target, user) for user in program.users(target)}
        if len(cuts) != 1:
            raise ScheduleError(
                f"{said(target)!r} is cut in more than one way",
                got=" and ".join(map(repr, cuts)) or "no use",
                need="one cut",
                at=target.at,
            )

    def apply(self, program: Program) -> Rewrite:
        """Return the program with a sliced input."""
        target = program[self.target]
        users = program.users(target)
        cut = _cut_of_use(program, target, users[0])
        rewriter = Rewriter(program, made_by=self.name)
        op = Input(target.type.with_layout(Sliced(cut)))
        rewriter.free(target)
        sliced = rewriter.new(op, name=target.name, like=target)
        rewriter.replace(target, sliced)
        updates: list[Value] = []
        for user in users:
            if isinstance(user.op, Slice):
                rewriter.replace(user, sliced)
                continue
            (part,) = user.inputs[1].inputs
            rewriter.free(user)
            update = rewriter.new(Update(), sliced, part, name=user.name, like=user)
            rewriter.replace(user, update)
            updates.append(update)
        return rewriter.finish(((sliced,), tuple(updates)))

    @classmethod
    def candidates(cls, program: Program) -> Iterator[Self]:
        """Yield every input that may be sliced."""
        yield from (cls(value.name) for value in _candidates(program))


def _advice(program: Program) -> str:
    candidates = _candidates(program)
    if not candidates:
        return "split and reorder first: no input is used in slices only"
    return f"one of {name_of(candidates)}"


def _candidates(program: Program) -> tuple[Value, ...]:
    found: list[Value] = []
    for value in program.tensors:
        if not isinstance(value.type.layout, Replicated):
            continue
        try:
            SliceState(value.name).check(program)
        except ScheduleError:
            continue
        found.append(value)
    return tuple(found)


def _cut_of_use(program: Program, target: Value, user: Value) -> Cut:
    """Return the cut by which one use reads or writes the target's pieces."""
    if isinstance(user.op, Slice):
        if user in program.outputs:
            raise ScheduleError(
                f"{said(user)!r} would be {said(target)!r} itself, and is returned",
                got=f"output {said(user)}",
                need="outputs that are computed",
                fix=f"read {target.name} after the call",
                at=user.at,
            )
        return user.op.cut
    source = user.inputs[-1]
    is_update = isinstance(user.op, Update) and user.inputs[0] is target
    if not is_update or not isinstance(source.op, AllGather):
        raise ScheduleError(
            f"{said(target)!r} is needed whole by {said(user)!r}",
            got=user,
            need=f"slice_({target.name}, ..) and update({target.name}, all_gather(..))",
            fix="split and reorder first, so that the uses are slices",
            at=user.at,
        )
    if program.users(user):
        raise ScheduleError(
            f"the whole of {said(user)!r} is needed by {said(*program.users(user))}",
            got=user,
            need="an updated value that nobody reads",
            at=user.at,
        )
    fusion = program.fusion_of(user)
    if fusion and source not in fusion.members:
        # alone in its kernel it would run over pieces, the others over everything
        require_no_fusion(program, [user], SliceState.name)
    layout = source.inputs[0].type.layout
    assert isinstance(layout, Sliced)  # what an all-gather reads
    return layout.cut

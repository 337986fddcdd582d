"""Fuse: several values in one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from coconet.errors import ScheduleError
from coconet.ir import Fusion, Program, Rewrite, Rewriter, Value, said
from coconet.ops import AllGather, Concat, Reduce, Update
from coconet.schedule.legality import (
    find,
    folds_rows,
    leaves_and_returns,
    loop_cut,
    loop_shape,
    reads_elsewhere,
    reads_peers,
)
from coconet.schedule.transform import Transform, name_of

__all__ = ["Fuse"]


@dataclass(frozen=True, slots=True)
class Fuse(Transform):
    """Compute several values in one kernel, from registers to registers.

    The members decide what the kernel is: computation alone; all_reduce + computation
    (every rank combines everything); reduce_scatter + computation; computation +
    all_gather; or all three, a FusedAllReduce.

    Before
        a = x * 2.0
        b = a + r

    After
        # fused: a, b
        a = x * 2.0
        b = a + r

    Legal when  the members are convex in the graph, of one group, run over the same
                elements, and hold at most one collective chain: first a reduction over
                ranks whose input is in memory, last the gathers, read by updates only
    Keeps       every bit: each value is rounded as before
    Returns     the kernel's members
    Raises      ScheduleError
    Source      CoCoNet, ASPLOS'22 (fuse: Computation, AllReduce)
    """

    name: ClassVar[str] = "fuse"

    members: tuple[str, ...]

    def check(self, program: Program) -> None:
        """Raise ScheduleError unless all the predicates hold."""
        members = self._members(program)
        if not members:
            raise ScheduleError(
                "fuse needs something to compute",
                got=", ".join(self.members) or "nothing",
                need="values that are not inputs, literals or scalars",
            )
        _check_whole_kernels(program, members)
        _check_convex(program, members)
        _check_one_group(members)
        _check_chain(program, members)
        _check_ends(program, members)
        _check_loops(members)
        _check_no_race(members)

    def _members(self, program: Program) -> tuple[Value, ...]:
        """Return the tensors among the named values, in program order."""
        named = {find(program, name, self.name) for name in self.members}
        inside = (v for v in program.values if v in named and not v.type.is_scalar)
        return tuple(inside)

    def apply(self, program: Program) -> Rewrite:
        """Return the program with one more kernel."""
        members = self._members(program)
        others = [f for f in program.fusions if not set(f.members) & set(members)]
        taken = {fusion.name for fusion in others}
        number = 1
        while f"kernel_{number}" in taken:
            number += 1
        fusions = [*others, Fusion(f"kernel_{number}", members)]
        rewriter = Rewriter(program, made_by=self.name)
        return rewriter.finish((members,), fusions)

    @classmethod
    def candidates(cls, program: Program) -> Iterator[Self]:
        """Yield the largest legal kernel that starts at each value."""
        values = [value for value in program.values if not value.type.is_scalar]
        for start in range(len(values)):
            grown: list[str] = []
            for value in values[start:]:
                step = cls((*grown, value.name))
                try:
                    step.check(program)
                except ScheduleError:
                    continue
                grown.append(value.name)
            if len(grown) > 1:
                yield cls(tuple(grown))


def _check_whole_kernels(program: Program, members: tuple[Value, ...]) -> None:
    for fusion in program.fusions:
        inside = set(fusion.members) & set(members)
        if inside and inside != set(fusion.members):
            raise ScheduleError(
                f"fuse takes a part of the kernel {fusion.name!r}",
                got=said(*members),
                need=f"all of {said(*fusion.members)}, or none",
            )


def _check_convex(program: Program, members: tuple[Value, ...]) -> None:
    between = leaves_and_returns(program, members)
    if between is not None:
        raise ScheduleError(
            f"fuse leaves out {said(between)!r}, which stands between its members",
            got=said(*members),
            need="every value on a path between two members",
            fix=f"fuse {between.name} too",
            at=between.at,
        )


def _check_one_group(members: tuple[Value, ...]) -> None:
    groups = {member.type.group for member in members}
    if len(groups) > 1:
        raise ScheduleError(
            "fuse got members of two groups", got=said(*members), need="one group"
        )


def _check_chain(program: Program, members: tuple[Value, ...]) -> None:
    """At most one reduction over ranks, first; gathers last."""
    reductions = [member for member in members if reads_peers(member)]
    if len(reductions) > 1:
        raise ScheduleError(
            "a kernel holds at most one reduction over ranks",
            got=said(*reductions),
            need="one collective chain",
            fix="a kernel for each",
            at=reductions[1].at,
        )
    for reduction in reductions:
        (source,) = reduction.inputs
        if source in members:
            raise ScheduleError(
                f"{said(reduction)!r} reads {said(source)!r} of every rank, "
                "which therefore must be in memory",
                got=said(*members),
                need=f"{said(source)} in an earlier kernel",
                fix=f"leave {source.name} out",
                at=reduction.at,
            )
    for gather in members:
        if not isinstance(gather.op, AllGather):
            continue
        for user in program.users(gather):
            if user in members and not isinstance(user.op, Update):
                raise ScheduleError(
                    f"{said(user)!r} reads what {said(gather)!r} brings from peers",
                    got=said(*members),
                    need="gathers last in a kernel",
                    fix=f"reorder({gather.name}, [{user.name}]) first",
                    at=user.at,
                )


def _check_ends(program: Program, members: tuple[Value, ...]) -> None:
    """A kernel passes once over its elements: a fold ends it, a view begins it."""
    for member in members:
        if len(members) > 1 and not _passes_in_order(member):
            raise ScheduleError(
                f"{said(member)!r} needs a loop of its own",
                got=said(*members),
                need="reductions over the last dims, or all, and no concat",
                fix=f"leave {member.name} out",
                at=member.at,
            )
        readers = [user for user in program.users(member) if user in members]
        if isinstance(member.op, Reduce) and readers:
            raise ScheduleError(
                f"{said(readers[0])!r} reads {said(member)!r}, known only at the end",
                got=said(*members),
                need="what reads a reduction in a later kernel",
                fix=f"leave {name_of(tuple(readers))} out",
                at=readers[0].at,
            )
        for source in member.inputs:
            if reads_elsewhere(member) and source in members:
                raise ScheduleError(
                    f"{said(member)!r} reads other elements of {said(source)!r} than "
                    "the one that is computed beside it",
                    got=said(*members),
                    need=f"{said(source)} in an earlier kernel",
                    fix=f"leave {source.name} out",
                    at=member.at,
                )


def _passes_in_order(member: Value) -> bool:
    if isinstance(member.op, Reduce):
        return folds_rows(member)
    return not isinstance(member.op, Concat)


def _check_loops(members: tuple[Value, ...]) -> None:
    first = members[0]
    cut, shape = loop_cut(first, members), loop_shape(first)
    for member in members:
        other = loop_cut(member, members)
        if other != cut or loop_shape(member) != shape:
            raise ScheduleError(
                f"{said(first)!r} and {said(member)!r} run over different elements",
                got=f"{list(shape)} by {cut!r} and {list(loop_shape(member))} by "
                f"{other!r}",
                need="one shape, and all whole or all by one cut",
                fix="split and reorder, or a kernel for each",
                at=member.at,
            )


def _check_no_race(members: tuple[Value, ...]) -> None:
    """What peers, or views, read in this kernel must not be written in it."""
    read: set[Value] = set()
    for member in members:
        if reads_peers(member) or reads_elsewhere(member):
            read.update(member.inputs)
    for member in members:
        if isinstance(member.op, Update) and member.inputs[0] in read:
            raise ScheduleError(
                f"{said(member)!r} writes {said(member.inputs[0])!r} while others of "
                "its elements are read",
                got=said(*members),
                need="the update in a later kernel",
                fix=f"leave {member.name} out",
                at=member.at,
            )

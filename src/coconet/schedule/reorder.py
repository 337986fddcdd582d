"""Reorder: compute on slices first, gather afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from coconet.errors import ScheduleError
from coconet.ir import (
    Cut,
    Fusion,
    Program,
    Replicated,
    Rewrite,
    Rewriter,
    Sliced,
    Value,
)
from coconet.ops import AllGather, Slice, Update
from coconet.schedule.legality import (
    acts_on_each_element,
    ancestors,
    descendants,
    find,
)
from coconet.schedule.transform import Transform, name_of

__all__ = ["Reorder"]


@dataclass(frozen=True, slots=True)
class Reorder(Transform):
    """Move the computation between an all-gather and `outs` before the gather.

    Before
        s = all_gather(x)
        m1 = update(m, s + m)
        y = m1 * s

    After
        m_s = slice_(m, FLAT)
        m1_s = x + m_s
        m1_ag = all_gather(m1_s)
        m1 = update(m, m1_ag)
        y_s = m1_s * x
        y = all_gather(y_s)

    Legal when  the values between them use the gather and nobody else does; each acts
                on every element alone; their other operands are Replicated
    Keeps       every bit
    Returns     the computation on slices; the gathers that are still needed, with the
                updates that take them
    Raises      ScheduleError
    Source      CoCoNet, ASPLOS'22 (reorder)
    """

    name: ClassVar[str] = "reorder"

    gather: str
    outs: tuple[str, ...]

    def check(self, program: Program) -> None:
        """Raise ScheduleError unless all the predicates hold."""
        gather = find(program, self.gather, self.name)
        if not isinstance(gather.op, AllGather):
            others = tuple(program.values_of(AllGather))
            raise ScheduleError(
                f"reorder needs an all-gather, and {self.gather!r} is not one",
                got=gather,
                need="all_gather(..)",
                fix=f"one of {name_of(others)}"
                if others
                else "split an all-reduce first",
                at=gather.at,
            )
        outs = tuple(find(program, name, self.name) for name in self.outs)
        following = descendants(program, gather)
        for out in outs:
            if out not in following:
                raise ScheduleError(
                    f"{out.name!r} is not computed from {self.gather!r}",
                    got=out,
                    need="outs that need the gather",
                    fix=f"among {name_of(_in_order(program, following))}",
                    at=out.at,
                )
        region = self._region(program)
        self._check_closed(program, gather, region, outs)
        for value in region:
            _check_moves(gather, value, region)
        self._check_fusions(program, region)

    def _region(self, program: Program) -> tuple[Value, ...]:
        outs = [program[name] for name in self.outs]
        gather = program[self.gather]
        between = descendants(program, gather) & ancestors(outs)
        return _in_order(program, between | _helpers(program, gather, between))

    def _check_closed(
        self,
        program: Program,
        gather: Value,
        region: tuple[Value, ...],
        outs: tuple[Value, ...],
    ) -> None:
        """Nothing outside may read the gather, or a value in the middle."""
        for value in (gather, *(v for v in region if v not in outs)):
            outside = tuple(u for u in program.users(value) if u not in region)
            if outside or value in program.outputs:
                reader = name_of(outside) if outside else "the program's outputs"
                raise ScheduleError(
                    f"{value.name!r} is also needed outside the region, by {reader}",
                    got=f"outs {name_of(outs)}",
                    need="outs that close over every use of the gather",
                    fix=f"add {reader if outside else value.name} to outs",
                    at=value.at,
                )

    def _check_fusions(self, program: Program, region: tuple[Value, ...]) -> None:
        for fusion in program.fusions:
            inside = [m for m in fusion.members if m in region]
            torn = inside and len(inside) < len(fusion.members)
            if torn or program[self.gather] in fusion.members:
                raise ScheduleError(
                    f"reorder would tear the kernel {fusion.name!r} apart",
                    got=name_of(fusion.members),
                    need="kernels wholly inside or outside the region",
                    fix="reorder before fuse",
                )

    def apply(self, program: Program) -> Rewrite:
        """Return the program with the region on slices."""
        mover = _Mover(program, program[self.gather])
        outs = [program[name] for name in self.outs]
        region = self._region(program)
        for value in region:
            needed = value in outs and (
                value in program.outputs
                or any(user not in region for user in program.users(value))
            )
            mover.move(value, is_needed=needed)
        return mover.finish()

    @classmethod
    def candidates(cls, program: Program) -> Iterator[Self]:
        """Yield the widest legal region behind each gather."""
        for gather in program.values_of(AllGather):
            following = descendants(program, gather)
            ends = (
                value.name
                for value in _in_order(program, following)
                if value in program.outputs or not program.users(value)
            )
            step = cls(gather.name, tuple(ends))
            try:
                step.check(program)
            except ScheduleError:
                continue
            if step.outs:
                yield step


class _Mover:
    """Rebuilds a region on slices."""

    def __init__(self, program: Program, gather: Value) -> None:
        self.program = program
        self.rewriter = Rewriter(program, made_by=Reorder.name)
        self.source = gather.inputs[0]
        self.slices: dict[tuple[Value, Cut], Value] = {}
        self.sliced: dict[Value, Value] = {gather: self.source}
        self.region: list[Value] = []
        self.tail: list[Value] = []
        self.rewriter.drop(gather)

    def move(self, value: Value, *, is_needed: bool) -> None:
        """Put a value's sliced form in the region, and its gather in the tail."""
        self.rewriter.free(value)
        if isinstance(value.op, Update):
            self._move_update(value)
            return
        inputs = tuple(self._part(value, source) for source in value.inputs)
        name = self._part_name(value, is_needed=is_needed)
        part = self.rewriter.new(value.op, *inputs, name=name, like=value)
        self.region.append(part)
        self.sliced[value] = part
        if is_needed:
            whole = self.rewriter.new(AllGather(), part, name=value.name, like=value)
            self.tail.append(whole)
            self.rewriter.replace(value, whole)
        else:
            self.rewriter.drop(value, part)

    def _part_name(self, value: Value, *, is_needed: bool) -> str:
        if is_needed:
            return f"{value.name}_s"
        updates = [u for u in self.program.users(value) if isinstance(u.op, Update)]
        if value.name.startswith("_") and updates:
            return f"{updates[0].name}_s"  # what is gathered deserves the user's name
        return value.name

    def _move_update(self, value: Value) -> None:
        target, source = value.inputs
        part = self.sliced[source]
        self.sliced[value] = part
        whole = self.rewriter.new(
            AllGather(), part, name=f"{value.name}_ag", like=value
        )
        updated = self.rewriter.new(
            value.op, target, whole, name=value.name, like=value
        )
        self.tail += [whole, updated]
        self.rewriter.replace(value, updated)

    def _part(self, value: Value, source: Value) -> Value:
        """Return what a moved value reads in place of `source`."""
        if source in self.sliced:
            return self.sliced[source]
        cut = _operand_cut(self.source, value, source)
        if cut is None:
            return source
        key = source, cut
        if key not in self.slices:
            name = f"{source.name}_s"
            made = self.rewriter.new(Slice(cut), source, name=name, like=source)
            self.slices[key] = made
            self.region.append(made)
        return self.slices[key]

    def finish(self) -> Rewrite:
        """Return the rewrite; kernels of the region become kernels of its slices."""
        gone = {v for v in self.sliced if isinstance(v.op, Update)}  # to the tail
        fusions = [
            Fusion(
                f.name, tuple(self.sliced.get(m, m) for m in f.members if m not in gone)
            )
            for f in self.program.fusions
        ]
        made = tuple(self.region), tuple(self.tail)
        return self.rewriter.finish(made, fusions)


def _in_order(program: Program, values: set[Value]) -> tuple[Value, ...]:
    return tuple(value for value in program.values if value in values)


def _helpers(program: Program, gather: Value, region: set[Value]) -> set[Value]:
    """Return Replicated computation that only the region reads: it moves along.

    The slice of f(m) is f of the slice of m, at 1/p of the work.
    """
    found: set[Value] = set()
    (part,) = gather.inputs
    for value in reversed(program.values):
        moves = acts_on_each_element(value) and not isinstance(value.op, Update)
        is_whole = isinstance(value.type.layout, Replicated) and (
            value.type.shape == gather.type.shape and not value.type.is_scalar
        )
        users = set(program.users(value))
        is_read_here_only = users and users <= region | found
        is_kept = value in region or value in program.outputs
        # made of smaller operands alone, its slice would be whole
        is_cut = any(_operand_cut(part, value, x) is not None for x in value.inputs)
        if moves and is_whole and is_cut and is_read_here_only and not is_kept:
            found.add(value)
    return found


def _operand_cut(part: Value, value: Value, operand: Value) -> Cut | None:
    """Return how an operand beside the region must be sliced, or None: used whole.

    What is broadcast stays whole: each rank reads of it what its piece meets.
    """
    layout = part.type.layout
    assert isinstance(layout, Sliced)  # what an all-gather reads
    is_replicated = isinstance(operand.type.layout, Replicated)
    shape = value.type.shape
    if operand.type.is_scalar or not is_replicated or operand.type.shape != shape:
        return None
    if isinstance(layout.cut, int):
        return layout.cut + len(shape) - len(part.type.shape)
    return layout.cut


def _check_moves(gather: Value, value: Value, region: tuple[Value, ...]) -> None:
    """Raise unless a value acts on every element of the slices alone."""
    if not acts_on_each_element(value):
        raise ScheduleError(
            f"{value.name!r} does not act on each element alone",
            got=value,
            need="element-wise computation and updates",
            fix="end the region before it: leave it out of outs",
            at=value.at,
        )
    layout = gather.inputs[0].type.layout
    assert isinstance(layout, Sliced)
    by_dim = isinstance(layout.cut, int)
    if not by_dim and value.type.shape != gather.type.shape:
        raise ScheduleError(
            f"{value.name!r} has another shape than {gather.name!r}",
            got=value.type,
            need=f"{gather.type}, which is cut by {layout.cut!r}",
            fix="split by a dim that both have",
            at=value.at,
        )
    if by_dim and not _keeps_dim(gather, value, layout.cut):
        raise ScheduleError(
            f"{value.name!r} broadcasts {gather.name!r} along the dim it is cut in",
            got=value.type,
            need=gather.type,
            fix="split by another dim",
            at=value.at,
        )
    for operand in value.inputs:
        _check_operand(gather, value, operand, region)


def _keeps_dim(gather: Value, value: Value, cut: Cut) -> bool:
    assert isinstance(cut, int)
    dim = cut - len(gather.type.shape)
    return value.type.shape[dim] == gather.type.shape[dim]


def _check_operand(
    gather: Value, value: Value, operand: Value, region: tuple[Value, ...]
) -> None:
    layout = operand.type.layout
    if operand is gather or operand in region or isinstance(layout, Replicated):
        if isinstance(value.op, Update) and operand is value.inputs[1]:
            _check_update_source(gather, value, operand, region)
        return
    raise ScheduleError(
        f"{value.name!r} mixes the gathered value with {operand.name!r}",
        got=operand,
        need="Replicated operands",
        at=value.at,
    )


def _check_update_source(
    gather: Value, value: Value, source: Value, region: tuple[Value, ...]
) -> None:
    if source is not gather and source not in region:
        raise ScheduleError(
            f"{value.name!r} takes a value that is not computed from {gather.name!r}",
            got=source,
            need=f"a value computed from {gather.name!r}",
            at=value.at,
        )

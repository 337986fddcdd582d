"""Reorder: compute on slices first, gather afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from coconet.errors import ProgramError, ScheduleError
from coconet.ir import (
    Cut,
    Fusion,
    Layout,
    Program,
    Replicated,
    Rewrite,
    Rewriter,
    Sliced,
    Value,
    said,
)
from coconet.ops import AllGather, Reduce, Slice, Update
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
                on every element alone, or is a reduction that gives the same bits on
                pieces; their other operands are Replicated
    Keeps       every bit
    Returns     the computation on slices; the gathers that are still needed, with the
                updates that take them.  What a reduction makes Replicated needs none
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
                f"reorder needs an all-gather, and {said(gather)!r} is not one",
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
                    f"{said(out)!r} is not computed from {said(gather)!r}",
                    got=out,
                    need="outs that need the gather",
                    fix=f"among {name_of(_in_order(program, following))}",
                    at=out.at,
                )
        region = self._region(program)
        self._check_closed(program, gather, region, outs)
        layouts: dict[Value, Layout] = {gather: gather.inputs[0].type.layout}
        for value in region:
            layouts[value] = _moved_layout(gather, value, layouts)
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
                reader = said(*outside) if outside else "the program's outputs"
                raise ScheduleError(
                    f"{said(value)!r} is also needed outside the region, by {reader}",
                    got=f"outs {said(*outs)}",
                    need="outs that close over every use of the gather",
                    fix=f"add {name_of(outside or (value,))} to outs",
                    at=value.at,
                )

    def _check_fusions(self, program: Program, region: tuple[Value, ...]) -> None:
        for fusion in program.fusions:
            inside = [m for m in fusion.members if m in region]
            torn = inside and len(inside) < len(fusion.members)
            if torn or program[self.gather] in fusion.members:
                raise ScheduleError(
                    f"reorder would tear the kernel {fusion.name!r} apart",
                    got=said(*fusion.members),
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
            region = _widest(program, gather)
            ends = tuple(v.name for v in region if _is_end(program, v, region))
            step = cls(gather.name, ends)
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
        self.layouts: dict[Value, Layout] = {gather: self.source.type.layout}
        self.gather = gather
        self.region: list[Value] = []
        self.tail: list[Value] = []
        self.rewriter.drop(gather)

    def move(self, value: Value, *, is_needed: bool) -> None:
        """Put a value's sliced form in the region, and its gather in the tail."""
        self.rewriter.free(value)
        self.layouts[value] = _moved_layout(self.gather, value, self.layouts)
        if isinstance(value.op, Update):
            self._move_update(value)
            return
        inputs = tuple(self._part(value, source) for source in value.inputs)
        is_gathered = is_needed and isinstance(self.layouts[value], Sliced)
        name = self._part_name(value, is_gathered=is_gathered)
        part = self.rewriter.new(value.op, *inputs, name=name, like=value)
        self.region.append(part)
        self.sliced[value] = part
        if is_needed and not is_gathered:
            self.rewriter.replace(value, part)
        elif is_gathered:
            whole = self.rewriter.new(AllGather(), part, name=value.name, like=value)
            self.tail.append(whole)
            self.rewriter.replace(value, whole)
        else:
            self.rewriter.drop(value, part)

    def _part_name(self, value: Value, *, is_gathered: bool) -> str:
        if is_gathered:
            return f"{value.name}_s"
        updates = [u for u in self.program.users(value) if isinstance(u.op, Update)]
        is_part = isinstance(self.layouts[value], Sliced)
        if value.name.startswith("_") and updates and is_part:
            return f"{updates[0].name}_s"  # what is gathered deserves the user's name
        return value.name

    def _move_update(self, value: Value) -> None:
        target, source = value.inputs
        part = self.sliced[source]
        self.sliced[value] = part
        if isinstance(self.layouts[value], Sliced):
            name = f"{value.name}_ag"
            part = self.rewriter.new(AllGather(), part, name=name, like=value)
            self.tail.append(part)
        updated = self.rewriter.new(value.op, target, part, name=value.name, like=value)
        self.tail.append(updated)
        self.rewriter.replace(value, updated)

    def _part(self, value: Value, source: Value) -> Value:
        """Return what a moved value reads in place of `source`."""
        if source in self.sliced:
            return self.sliced[source]
        cut = _operand_cut(self.layouts[value], value, source)
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


def _widest(program: Program, gather: Value) -> tuple[Value, ...]:
    """Return all that follows a gather and may move before it."""
    following = descendants(program, gather)
    layouts: dict[Value, Layout] = {gather: gather.inputs[0].type.layout}
    for value in _in_order(program, following):
        if following.intersection(value.inputs) <= layouts.keys():
            try:
                layouts[value] = _moved_layout(gather, value, layouts)
            except ScheduleError:
                continue
    return tuple(layouts)[1:]


def _is_end(program: Program, value: Value, region: tuple[Value, ...]) -> bool:
    """Whether something else than the region needs a value, or nothing does."""
    users = program.users(value)
    return value in program.outputs or not users or not set(users) <= set(region)


def _helpers(program: Program, gather: Value, region: set[Value]) -> set[Value]:
    """Return Replicated computation that only the region reads: it moves along.

    The slice of f(m) is f of the slice of m, at 1/p of the work.
    """
    found: set[Value] = set()
    layout = gather.inputs[0].type.layout
    for value in reversed(program.values):
        moves = acts_on_each_element(value) and not isinstance(value.op, Update)
        is_whole = isinstance(value.type.layout, Replicated) and (
            value.type.shape == gather.type.shape and not value.type.is_scalar
        )
        users = set(program.users(value))
        is_read_here_only = users and users <= region | found
        is_kept = value in region or value in program.outputs
        # made of smaller operands alone, its slice would be whole
        is_cut = any(_operand_cut(layout, value, x) is not None for x in value.inputs)
        if moves and is_whole and is_cut and is_read_here_only and not is_kept:
            found.add(value)
    return found


def _operand_cut(layout: Layout, value: Value, operand: Value) -> Cut | None:
    """Return how an operand beside the region must be sliced, or None: used whole.

    layout is the moved value's.  What is broadcast stays whole: each rank reads of it
    what its piece meets.
    """
    is_replicated = isinstance(operand.type.layout, Replicated)
    is_alike = operand.type.shape == value.type.shape and not operand.type.is_scalar
    if isinstance(layout, Sliced) and is_replicated and is_alike:
        return layout.cut
    return None


def _moved_layout(
    gather: Value, value: Value, layouts: Mapping[Value, Layout]
) -> Layout:
    """Return a value's layout once it is computed on slices.

    layouts has those of the gather and of what moved before.
    Raises ScheduleError if the value may not move.
    """
    moved = [source for source in value.inputs if source in layouts]
    if not moved:  # a helper: Replicated computation of the gather's shape
        return layouts[gather]
    _check_op(gather, value, layouts)
    for operand in value.inputs:
        if operand not in layouts and not isinstance(operand.type.layout, Replicated):
            raise ScheduleError(
                f"{said(value)!r} mixes the gathered value with {said(operand)!r}",
                got=operand,
                need="Replicated operands",
                at=value.at,
            )
    if isinstance(value.op, Update):
        _check_update_source(gather, value, layouts)
        return layouts[value.inputs[1]]
    types = (
        source.type.with_layout(layouts.get(source, source.type.layout))
        for source in value.inputs
    )
    try:
        return value.op.infer(*types).layout
    except ProgramError as error:
        raise ScheduleError(
            f"{said(value)!r} cannot be computed on slices of {said(gather)!r}",
            got=error.got,
            need=error.need,
            fix="split by another cut, or leave it out of outs",
            at=value.at,
        ) from error


def _check_op(gather: Value, value: Value, layouts: Mapping[Value, Layout]) -> None:
    """Raise unless a value acts on each element, or is folded by the same tree."""
    if acts_on_each_element(value):
        return
    if not isinstance(value.op, Reduce):
        raise ScheduleError(
            f"{said(value)!r} does not act on each element alone",
            got=value,
            need="element-wise computation, reductions and updates",
            fix="end the region before it: leave it out of outs",
            at=value.at,
        )
    (source,) = value.inputs
    layout = layouts[source]
    cut = layout.cut if isinstance(layout, Sliced) else None
    if isinstance(cut, int) and cut in value.op.folded(len(source.type.shape)):
        raise ScheduleError(
            f"{said(value)!r} folds dim {cut}, which is cut: in another order than "
            "the whole, so to other bits",
            got=source.type.with_layout(layout),
            need="a cut that the tree of the whole respects",
            fix="split by FLAT to fold all dims, by ROWS(k) to fold the last k",
            at=value.at,
        )


def _check_update_source(
    gather: Value, value: Value, layouts: Mapping[Value, Layout]
) -> None:
    source = value.inputs[1]
    if source not in layouts:
        raise ScheduleError(
            f"{said(value)!r} takes a value that is not computed from {said(gather)!r}",
            got=source,
            need=f"a value computed from {said(gather)!r}",
            at=value.at,
        )

"""Split: an all-reduce as a reduce-scatter and an all-gather."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from coconet.errors import ScheduleError
from coconet.ir import FLAT, ROWS, Cut, Program, Rewrite, Rewriter, said
from coconet.ops import AllGather, AllReduce, ReduceScatter
from coconet.schedule.legality import find, require_no_fusion
from coconet.schedule.transform import Transform, name_of

__all__ = ["Split"]


@dataclass(frozen=True, slots=True)
class Split(Transform):
    """Replace an all-reduce by a reduce-scatter and an all-gather.

    Before
        s = all_reduce(x)

    After
        s_rs = reduce_scatter(x, "sum", FLAT)
        s = all_gather(s_rs)

    Legal when  the target is an all-reduce that no kernel contains, and `by` cuts it
    Keeps       every bit: both sides combine in rank order
    Returns     the reduce-scatter; the all-gather
    Raises      ScheduleError
    Source      CoCoNet, ASPLOS'22 (split, policy AllReduce-RS-AG)
    """

    name: ClassVar[str] = "split"

    target: str
    by: Cut = FLAT

    def check(self, program: Program) -> None:
        """Raise ScheduleError unless the target is an all-reduce that `by` can cut."""
        value = find(program, self.target, self.name)
        if not isinstance(value.op, AllReduce):
            others = tuple(program.values_of(AllReduce))
            raise ScheduleError(
                f"split needs an all-reduce, and {said(value)!r} is not one",
                got=value,
                need="all_reduce(..)",
                fix=f"split({others[0].name}): here are {name_of(others)}"
                if others
                else "no step: there is no all-reduce here",
                at=value.at,
            )
        needed = self.by + 1 if isinstance(self.by, int) else getattr(self.by, "k", 0)
        is_negative = isinstance(self.by, int) and self.by < 0
        if is_negative or needed > len(value.type.shape):
            raise ScheduleError(
                f"split by {self.by!r} needs a dim that {said(value)!r} does not have",
                got=value.type,
                need="dims, from 0 on" if is_negative else f"at least {needed} dims",
                fix="by=FLAT",
                at=value.at,
            )
        require_no_fusion(program, [value], self.name)

    def apply(self, program: Program) -> Rewrite:
        """Return the program with two values in place of one."""
        value = program[self.target]
        assert isinstance(value.op, AllReduce)  # check has passed
        (x,) = value.inputs
        rewriter = Rewriter(program, made_by=self.name)
        scatter = ReduceScatter(value.op.op, self.by)
        part = rewriter.new(scatter, x, name=f"{value.name}_rs", like=value)
        rewriter.free(value)
        whole = rewriter.new(AllGather(), part, name=value.name, like=value)
        rewriter.replace(value, whole)
        return rewriter.finish(made=((part,), (whole,)))

    @classmethod
    def candidates(cls, program: Program) -> Iterator[Self]:
        """Yield FLAT, every ROWS and every dim, for each all-reduce."""
        for value in program.values_of(AllReduce):
            if program.fusion_of(value) is None:
                rank = len(value.type.shape)
                cuts = FLAT, *map(ROWS, range(1, rank)), *range(rank)
                yield from (cls(value.name, cut) for cut in cuts)

"""What fuses with what: element-wise regions, and the maximal kernels made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from coconet.errors import ScheduleError
from coconet.ir import Program, Value
from coconet.ops import AllGather, Concat, Reduce, Slice, Update
from coconet.schedule import Fuse, loop_cut
from coconet.schedule.legality import acts_on_each_element, reached

__all__ = ["Kernel", "Kernels", "Partition", "Region", "is_pointwise", "regions"]

Region = tuple[Value, ...]
"""Values that the search keeps together."""

Kernel = frozenset[int]
"""Numbers of regions that one kernel computes."""

Partition = frozenset[Kernel]
"""Every region in one kernel."""


def is_pointwise(value: Value) -> bool:
    """Whether a value is computed, or taken, element by element.

    An update with a gathered value is not: it belongs to the gather.
    """
    if _is_gathered(value):
        return False
    return acts_on_each_element(value) or isinstance(value.op, Slice)


def _is_gathered(value: Value) -> bool:
    source = value.inputs[-1] if isinstance(value.op, Update) else value
    return isinstance(source.op, AllGather)


def regions(program: Program, limit: int) -> tuple[Region, ...]:
    """Return the program's tensors in regions.

    Pointwise values are one region if reads connect them, they run over the same
    elements, and they are first needed at the same point: after the same values that
    are not pointwise.  After `limit` values, in program order, begins another region.
    A gather, and the updates with it, belong to what is gathered, unless that needs a
    loop of its own.  Any other value is a region of its own.
    """
    tensors = [value for value in program.values if not value.type.is_scalar]
    connected = _connected(program, tensors)
    region_of: dict[Value, list[Value]] = {}
    for value in tensors:
        source = value.inputs[-1]
        ends_its_loop = isinstance(source.op, Reduce | Concat)
        if _is_gathered(value) and source in region_of and not ends_its_loop:
            region_of[value] = region_of[source]
            region_of[value].append(value)
        elif value not in region_of:
            members = [v for v in tensors if v in connected[value]]
            for start in range(0, len(members), limit):
                part = members[start : start + limit]
                region_of |= dict.fromkeys(part, part)
    return tuple(tuple(r) for v, r in region_of.items() if v is r[0])


def _connected(
    program: Program, tensors: Sequence[Value]
) -> Mapping[Value, frozenset[Value]]:
    """Return, for each value, those of one kind that reads connect it with."""
    needed = _first_needed(program, tensors)
    kind = {
        v: (v.type.shape, loop_cut(v, [v]), v.type.group, needed[v])
        for v in tensors
        if is_pointwise(v)
    }
    joined = {value: frozenset([value]) for value in tensors}
    for value in kind:
        for source in value.inputs:
            if kind.get(source) == kind[value]:
                both = joined[value] | joined[source]
                joined |= dict.fromkeys(both, both)
    return joined


def _first_needed(
    program: Program, tensors: Sequence[Value]
) -> Mapping[Value, frozenset[Value]]:
    """Return, for each value, what is computed before it can be used.

    These are the values not pointwise that it is made from; if all that reads it is
    pointwise, those that every reader is made from.
    """
    above: dict[Value, frozenset[Value]] = {}
    for value in tensors:
        sources = [source for source in value.inputs if source in above]
        ends = (source for source in sources if not is_pointwise(source))
        above[value] = frozenset(ends).union(*(above[source] for source in sources))
    needed: dict[Value, frozenset[Value]] = {}
    for value in reversed(tensors):
        users = program.users(value)
        if users and all(map(is_pointwise, (value, *users))):
            first, *others = (needed[user] for user in users)
            needed[value] = first.intersection(*others)
        else:
            needed[value] = above[value]
    return needed


_MOST_PARTITIONS = 1000


class Kernels:
    """The kernels that a program's regions may form."""

    def __init__(self, program: Program, regions: Sequence[Region]) -> None:
        """Start from every region in a kernel of its own."""
        self._program = program
        self._regions = regions
        number = {value: i for i, region in enumerate(regions) for value in region}
        inputs = [
            {x for value in region for x in value.inputs if not x.type.is_scalar}
            for region in regions
        ]
        self._touched = [{*r, *x} for r, x in zip(regions, inputs, strict=True)]
        self._read = [
            {number[x] for x in found if x in number} - {i}
            for i, found in enumerate(inputs)
        ]
        self._refusals: dict[Kernel, str] = {}
        self.was_capped = False

    def maximal(self) -> Iterator[Partition]:
        """Yield every partition of which no two kernels may be merged.

        Merged are kernels that share a tensor, if Fuse allows it and no other kernel
        stands between them.  Of very many ways to merge not all are tried: was_capped
        says so.
        """
        finest = frozenset(frozenset([i]) for i in range(len(self._regions)))
        stack, seen = [finest], {finest}
        while stack:
            partition = stack.pop()
            pairs = self._pairs(partition)
            self.was_capped = len(seen) > _MOST_PARTITIONS
            if self.was_capped and pairs:
                # the first way on from here leads to a maximal one as any other does
                a, b = pairs[0]
                stack = [partition - {a, b} | {a | b}]
                continue
            if not pairs:
                yield partition
                continue
            coarser = [self._with_certain(partition, pairs)]
            if partition in coarser:
                coarser = [partition - {a, b} | {a | b} for a, b in reversed(pairs)]
            stack += (p for p in coarser if p not in seen)
            seen.update(coarser)

    def members(self, partition: Partition) -> list[Region]:
        """Return the values of each kernel, in program order."""
        return [self._values(kernel) for kernel in _in_order(partition)]

    def refused(self, partition: Partition) -> Iterator[tuple[Region, Region, str]]:
        """Yield kernels that share a tensor, and why they were not merged."""
        for a, b in combinations(_in_order(partition), 2):
            if self._share(a, b):
                reason = self._refusal(a | b) or "another kernel stands between them"
                yield self._values(a), self._values(b), reason

    def _pairs(self, partition: Partition) -> list[tuple[Kernel, Kernel]]:
        """Return the kernels that may be merged."""
        after = self._after(partition)
        return [
            (a, b)
            for a, b in combinations(_in_order(partition), 2)
            if self._share(a, b)
            and not self._refusal(a | b)
            and b not in reached(after[a] - {b}, after.__getitem__)
            and a not in reached(after[b] - {a}, after.__getitem__)
        ]

    def _with_certain(
        self, partition: Partition, pairs: Iterable[tuple[Kernel, Kernel]]
    ) -> Partition:
        """Return the partition after the merges that every maximal one has.

        Where all that may be merged step by step is one legal kernel, and would be even
        if so were all the others, nothing is left to choose.
        """
        whole = {kernel: kernel for kernel in partition}
        for a, b in pairs:
            both = whole[a] | whole[b]
            whole |= {k: both for k in partition if k <= both}
        after = self._after(frozenset(whole.values()))
        certain = {
            kernel
            for kernel in after
            if not self._refusal(kernel)
            and kernel not in reached(after[kernel], after.__getitem__)
        }
        return frozenset(whole[k] if whole[k] in certain else k for k in partition)

    def _after(self, partition: Partition) -> dict[Kernel, set[Kernel]]:
        """Return the kernels that read each kernel."""
        kernel_of = {i: kernel for kernel in partition for i in kernel}
        after: dict[Kernel, set[Kernel]] = {kernel: set() for kernel in partition}
        for kernel in partition:
            for i in kernel:
                for source in self._read[i]:
                    after[kernel_of[source]].add(kernel)
        for kernel, readers in after.items():
            readers.discard(kernel)
        return after

    def _share(self, a: Kernel, b: Kernel) -> bool:
        left = set[Value]().union(*(self._touched[i] for i in a))
        return any(not left.isdisjoint(self._touched[i]) for i in b)

    def _refusal(self, kernel: Kernel) -> str:
        """Return why Fuse refuses a kernel, or nothing."""
        if kernel not in self._refusals:
            try:
                step = Fuse(tuple(value.name for value in self._values(kernel)))
                step.check(self._program)
                self._refusals[kernel] = ""
            except ScheduleError as error:
                self._refusals[kernel] = error.what
        return self._refusals[kernel]

    def _values(self, kernel: Kernel) -> Region:
        inside = {value for i in kernel for value in self._regions[i]}
        return tuple(value for value in self._program.values if value in inside)


def _in_order(partition: Partition) -> list[Kernel]:
    return sorted(partition, key=min)

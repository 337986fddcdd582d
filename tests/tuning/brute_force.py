"""The search's space, counted by trying everything: from the words of docs/tuning.md.

Nothing of coconet.tuning is used, nor the rules of Fuse: only `split` and `reorder`
themselves, to make the programs whose kernels are counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from coconet.errors import ScheduleError
from coconet.ir import FLAT, ROWS, Fusion, Program, Sliced, Value
from coconet.ops import (
    AllGather,
    AllReduce,
    Cast,
    Dropout,
    Elementwise,
    Reduce,
    ReduceScatter,
    Slice,
    Update,
    Where,
)

__all__ = ["every_schedule", "signature"]

Blocks = list[frozenset[Value]]


def signature(program: Program) -> object:
    """Return what tells schedules of one program apart, whatever values are called."""
    written: dict[Value, str] = {v: v.name for v in program.inputs}
    for value in program.values:
        inputs = ", ".join(written[x] for x in value.inputs)
        written[value] = f"{value.op!r}({inputs})"
    kernels = {frozenset(written[m] for m in f.members) for f in program.fusions}
    values = frozenset(written[v] for v in program.values)
    return values, frozenset(k for k in kernels if len(k) > 1)


def every_schedule(program: Program, *, contract: bool = True) -> set[object]:
    """Return the signature of every schedule of the space."""
    found = {signature(program)}
    for unfused in every_way_to_split(program):
        tensors = [v for v in unfused.values if v.type.group]
        units = contracted(unfused) if contract else [frozenset([v]) for v in tensors]
        legal = [p for p in set_partitions(units) if is_legal(unfused, p)]
        for blocks in legal:
            if not any(is_legal(unfused, merged) for merged in merges(blocks)):
                kernels = tuple(Fusion(str(i), tuple(b)) for i, b in enumerate(blocks))
                found.add(signature(replace(unfused, fusions=kernels)))
    return found


def every_way_to_split(program: Program) -> list[Program]:
    """Return the program with each all-reduce kept, split, or split and moved over."""
    known, waiting = {}, [program]
    while waiting:
        found = waiting.pop()
        if signature(found) in known:
            continue
        known[signature(found)] = found
        for value in found.values:
            if isinstance(value.op, AllReduce):
                waiting += ways_to_split(found, value)
            if isinstance(value.op, AllGather):
                waiting += [p for _, p in most_reordered(found, value)]
    return list(known.values())


def ways_to_split(program: Program, value: Value) -> list[Program]:
    """By FLAT; and moved over by FLAT, and by each cut that moves more than before."""
    dims = len(value.type.shape)
    made, most = [], 0
    for cut in (FLAT, *map(ROWS, range(1, dims)), *range(dims)):
        draft = program.schedule()
        _, gather = draft.split(value, by=cut)
        made += [draft.program] if cut is FLAT else []
        for count, moved in most_reordered(draft.program, gather):
            made += [moved] if count > most else []
            most = max(most, count)
    return made


def most_reordered(program: Program, gather: Value) -> list[tuple[int, Program]]:
    """Return the program with as much as possible moved before a gather."""
    after = [v for v in program.values if v in reach(program, [gather])]
    ends = [v for v in after if not program.users(v) or v in program.outputs]
    tries = [ends]
    if len(after) <= 8:
        tries += [o for n in range(1, len(after)) for o in combinations(after, n)]
    legal = []
    for outs in tries:
        draft = program.schedule()
        with contextlib.suppress(ScheduleError):
            draft.reorder(gather, list(outs))
            pieces = [v for v in draft.program.values if cut_of(v) is not None]
            legal.append((len(pieces), draft.program))
    widest = max((count for count, _ in legal), default=0)
    return [(count, p) for count, p in legal if count == widest][:1]


def reach(program: Program, starts: list[Value]) -> set[Value]:
    """Everything computed from these values."""
    found = {u for v in starts for u in program.users(v)}
    return found | reach(program, list(found)) if found else found


def set_partitions(items: Blocks) -> Iterator[Blocks]:
    if not items:
        yield []
        return
    first, *rest = items
    for blocks in set_partitions(rest):
        yield [first, *blocks]
        for i, block in enumerate(blocks):
            yield [*blocks[:i], block | first, *blocks[i + 1 :]]


def merges(blocks: Blocks) -> Iterator[Blocks]:
    """Every merge of two kernels that have a tensor in common."""
    for a, b in combinations(blocks, 2):
        if touched(a) & touched(b):
            yield [x for x in blocks if x not in (a, b)] + [a | b]


def touched(block: frozenset[Value]) -> set[Value]:
    return {x for v in block for x in (v, *v.inputs) if x.type.group}


def is_legal(program: Program, blocks: Blocks) -> bool:
    return all(is_kernel(program, block) for block in blocks) and can_be_ordered(blocks)


def can_be_ordered(blocks: Blocks) -> bool:
    """Whether the kernels can run one after the other."""
    waiting, done = list(blocks), set()
    computed = {v for block in blocks for v in block}
    while waiting:
        ready = [
            b
            for b in waiting
            if all(
                x in done or x in b or x not in computed for v in b for x in v.inputs
            )
        ]
        if not ready:
            return False
        done |= ready[0]
        waiting.remove(ready[0])
    return True


def is_kernel(program: Program, block: frozenset[Value]) -> bool:
    if len(block) == 1:
        return True
    reduced = [v for v in block if isinstance(v.op, AllReduce | ReduceScatter)]
    sources = {x for v in reduced for x in v.inputs}
    written = {v.inputs[0] for v in block if isinstance(v.op, Update)}
    gathered = {v for v in block if isinstance(v.op, AllGather)}
    readers = {v for v in block if gathered & set(v.inputs)}
    folds = {v for v in block if isinstance(v.op, Reduce)}
    return (
        len(reduced) <= 1
        and not sources & block
        and not sources & written
        and all(isinstance(v.op, Update) for v in readers)
        and not any(folds & set(v.inputs) for v in block)
        and len({(shape_inside(v), cut_inside(v, block)) for v in block}) == 1
        and not between(program, block)
        and is_connected(block)
    )


def is_connected(block: frozenset[Value]) -> bool:
    """Whether the members have tensors in common, one with the next."""
    first, *others = block
    joined = touched(frozenset([first]))
    while near := [v for v in others if touched(frozenset([v])) & joined]:
        joined |= touched(frozenset(near))
        others = [v for v in others if v not in near]
    return not others


def between(program: Program, block: frozenset[Value]) -> set[Value]:
    """What is computed from the kernel outside, and needed in it again."""
    outside = reach(program, list(block)) - block
    return {v for v in outside if reach(program, [v]) & block}


def cut_of(value: Value) -> object:
    layout = value.type.layout
    return layout.cut if isinstance(layout, Sliced) else None


def shape_inside(value: Value) -> object:
    return (value.inputs[0] if isinstance(value.op, Reduce) else value).type.shape


def cut_inside(value: Value, block: frozenset[Value]) -> object:
    """What the kernel runs over for this value: a piece, or everything."""
    source = value.inputs[-1]
    if isinstance(value.op, Update) and source in block:
        return cut_inside(source, block)
    return cut_of(source if isinstance(value.op, AllGather | Reduce) else value)


def contracted(program: Program) -> Blocks:
    """Regions: pointwise values in connection that are first needed together.

    Gathers, and updates with gathered values, go with what is gathered.
    """
    tensors = [v for v in program.values if v.type.group]
    units: Blocks = []
    for value in tensors:
        home = next((u for u in units if gathered_from(value) in u), None)
        if home:
            units[units.index(home)] = home | {value}
        elif not any(value in unit for unit in units):
            units.append(flooded(program, value))
    return units


def gathered_from(value: Value) -> Value | None:
    if isinstance(value.op, Update):
        source = value.inputs[1]
        return source if isinstance(source.op, AllGather) else None
    return value.inputs[0] if isinstance(value.op, AllGather) else None


def flooded(program: Program, start: Value) -> frozenset[Value]:
    region, front = {start}, [start]
    while front:
        value = front.pop()
        for near in (*value.inputs, *program.users(value)):
            if near in region or near in program.inputs or not near.type.group:
                continue
            if pointwise(start) and pointwise(near) and alike(program, start, near):
                region.add(near)
                front.append(near)
    return frozenset(region)


def alike(program: Program, a: Value, b: Value) -> bool:
    same = a.type.shape == b.type.shape and cut_of(a) == cut_of(b)
    return same and first_needed(program, a) == first_needed(program, b)


def first_needed(program: Program, value: Value) -> frozenset[Value]:
    users = program.users(value)
    if users and all(map(pointwise, (value, *users))):
        sets = [first_needed(program, user) for user in users]
        return frozenset.intersection(*sets)
    return frozenset(
        v for v in program.values if not pointwise(v) and value in reach(program, [v])
    )


def pointwise(value: Value) -> bool:
    if not value.type.group:
        return True  # scalars are known before any kernel runs
    if gathered_from(value):
        return False
    return isinstance(value.op, Elementwise | Where | Cast | Dropout | Slice | Update)

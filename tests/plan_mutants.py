"""Programs, and their plans with one mistake each, for the proof and the executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from small_programs import M, N, program, tensor

import coconet as cc
from coconet.ir import bind_shape
from coconet.plan import (
    EVERY,
    OWN,
    Arrive,
    Barrier,
    FenceStores,
    Fold,
    Index,
    Instruction,
    Load,
    Plan,
    Reduce,
    Role,
    Space,
    Step,
    Store,
    Tile,
    View,
)
from coconet.workloads.optimizers import adam, sgd

__all__ = ["FOUND_BY", "PROGRAMS", "PROOF", "RUN", "SIZES", "bound", "mutants"]

SIZES = {"N": 520, "M": 5}


def all_reduce():
    g = tensor("g", cc.Local())
    return program(cc.all_reduce(g), inputs=[g])


def split_all_reduce():
    draft = all_reduce().schedule()
    draft.split(draft.program.outputs[0])
    return draft.program


def epilogue():
    """What follows a MatMul: bias, activation, residual."""
    g, b, r = tensor("g", cc.Local(), (M, N)), tensor("b"), tensor("r", shape=(M, N))
    return program(cc.relu(cc.all_reduce(g) + b) * 0.5 + r, inputs=[g, b, r])


def gathered():
    """Pieces by a dim, whose rows lie apart, joined and used."""
    x = tensor("x", cc.Sliced(1), (M, N))
    y = tensor("y", shape=(M, N))
    return program(cc.all_gather(x * 2.0) + y, inputs=[x, y])


def relayed():
    """Two exchanges, each of what the one before made, and an update of an input."""
    g, p = tensor("g", cc.Local()), tensor("p")
    first = cc.all_reduce(g * 2.0)
    second = cc.all_reduce(first * g)
    p1 = cc.update(p, p - second)
    return program(p1, cc.all_reduce(p1 * g), inputs=[g, p])


def saved():
    """An input that is read after its update."""
    g, p = tensor("g", cc.Local()), tensor("p")
    p1 = cc.update(p, p - cc.all_reduce(g))
    return program(p1, cc.all_reduce(p1 * p * g), inputs=[g, p])


def normed():
    """A reduction over what is cut: ranks exchange subtrees of the fold."""
    g, p = tensor("g", cc.Local()), tensor("p")
    part = cc.reduce_scatter(g, "sum", cc.FLAT)
    p1 = cc.update(p, p - cc.all_gather(part / cc.norm(part)))
    return program(p1, inputs=[g, p])


def rows(cut=None):
    """A reduction of each row, and what it is for."""
    x = tensor("x", None if cut is None else cc.Sliced(cut), (M, N))
    return program(x - cc.sum_(x, 1, keepdim=True), inputs=[x])


def columns():
    """A reduction over the dim that is cut: ranks read each other's folds."""
    x = tensor("x", cc.Sliced(0), (M, N))
    return program(cc.mean(x, 0), inputs=[x])


def turned():
    """Elements that lie otherwise than the loop runs."""
    x, y = tensor("x", cc.Sliced(1), (4, N)), tensor("y", shape=(6, N))
    whole = cc.concat([cc.all_gather(x), cc.index(y, 0, 1, 3)])
    return program(cc.transpose(whole, (1, 0)) * 2.0, inputs=[x, y])


def _library(name: str, source: cc.Program) -> dict[str, cc.Program]:
    return {f"{name}-{kind}": s.result for kind, s in cc.library(source).items()}


PROGRAMS: dict[str, cc.Program] = {
    **_library("sgd", sgd),
    **_library("adam", adam),
    "all_reduce": all_reduce(),
    "all_reduce-split": split_all_reduce(),
    **_library("epilogue", epilogue()),
    "gathered": gathered(),
    "relayed": relayed(),
    "saved": saved(),
    "normed": normed(),
    "rows": rows(),
    "rows-0": rows(0),
    "rows-ROWS": rows(cc.ROWS(1)),
    "columns": columns(),
    "turned": turned(),
}


PROOF, RUN = "the proof", "the interpreter"

_SHOWN = (
    *("no Arrive", "no Barrier", "no FenceStores", "no Fold"),
    *("barrier earlier", "barrier later", "every made own", "index swapped"),
    *("shifted +1", "extent -1", "extent +1", "other cut"),
)

FOUND_BY: dict[str, frozenset[str]] = {
    **dict.fromkeys(_SHOWN, frozenset({PROOF, RUN})),
    # a barrier orders all that the arrival would, but compares no fingerprints
    "silent Arrive": frozenset({PROOF}),
    # the step may be freed after its call, and with it the scratch
    "scratch on return": frozenset({PROOF}),
    # to numpy, element -1 is the last one, and a sum may have it anyway
    "shifted -1": frozenset({PROOF}),
    # the interpreter folds as many rows as their buffer has
    "folded dims": frozenset({PROOF}),
    # several ranks write the same value to one place: no run can show it
    **dict.fromkeys(["own made every", "no cut"], frozenset({PROOF})),
    # in order, in bounds and written, but not what is meant
    "wrong peer": frozenset({RUN}),
    # a temporary's memory keeps a part of the one before; a fold lacks elements
    "in part": frozenset({RUN}),
    # a tile that stores by global index on every rank may be cut in any way
    "another right cut": frozenset(),
}
"""Who must find each kind of mistake."""


@dataclass(frozen=True)
class Mutant:
    """A plan with one mistake.

    kind   a key of FOUND_BY
    place  of the instruction, and of the step in it
    """

    kind: str
    place: tuple[int, ...]
    plan: Plan


def bound(plan: Plan, sizes: dict[str, int]) -> Plan:
    """Return a plan whose extents are numbers."""

    def of(x):
        return replace(x, shape=bind_shape(x.shape, sizes))

    def step_of(step: Step) -> Step:
        index = getattr(step, "index", None)
        return replace(step, index=of(index)) if isinstance(index, View) else step

    def instruction_of(instruction: Instruction) -> Instruction:
        match instruction:
            case Tile(body=body):
                return replace(of(instruction), body=tuple(map(step_of, body)))
            case Fold():
                return of(instruction)
        return instruction

    return replace(
        plan,
        dims=(),
        buffers=tuple(map(of, plan.buffers)),
        body=tuple(map(instruction_of, plan.body)),
    )


def mutants(plan: Plan) -> Iterator[Mutant]:
    """Yield every mutant of a plan that is bound to numbers."""
    # by mistake, a step may touch any buffer of a peer
    buffers = tuple(replace(b, space=Space.SYMMETRIC) for b in plan.buffers)
    for place in range(len(plan.body)):
        for kind, body in _waits(plan.body, place):
            if _is_for_scratch(plan, place):
                kind = "scratch on return"
            yield Mutant(kind, (place,), replace(plan, body=body))
        tile = plan.body[place]
        if not isinstance(tile, Tile):
            continue
        for kind, other in _tiles(tile):
            body = (*plan.body[:place], other, *plan.body[place + 1 :])
            yield Mutant(kind, (place,), replace(plan, body=body))
        for number, step in enumerate(tile.body):
            for kind, wrong in _steps(plan, tile, step):
                steps = (*tile.body[:number], wrong, *tile.body[number + 1 :])
                other = replace(tile, body=steps)
                body = (*plan.body[:place], other, *plan.body[place + 1 :])
                made = replace(plan, body=body)
                if kind == "own made every":
                    made = replace(made, buffers=buffers)
                yield Mutant(kind, (place, number), made)


Body = tuple[Instruction, ...]


def _waits(body: Body, place: int) -> Iterator[tuple[str, Body]]:
    """Yield a body without an instruction that is no tile, or with it elsewhere."""
    before, instruction, after = body[:place], body[place], body[place + 1 :]
    match instruction:
        case Arrive():
            meets = (
                step for step in after if isinstance(step, Barrier) or _peers(step)
            )
            shows = not isinstance(next(meets, instruction), Barrier | Arrive)
            yield "no Arrive" if shows else "silent Arrive", after
        case Barrier() | FenceStores() | Fold():
            yield f"no {type(instruction).__name__}", before + after
        case _:
            return
    if isinstance(instruction, Barrier):
        yield "barrier earlier", (*before[:-1], instruction, before[-1], *after)
        if after:
            yield "barrier later", (*before, after[0], instruction, *after[1:])


def _is_for_scratch(plan: Plan, place: int) -> bool:
    """Whether peers touch scratch alone, and this barrier is the last."""
    is_last = place == len(plan.body) - 1 and isinstance(plan.body[place], Barrier)
    met = {name for instruction in plan.body for name in _peers(instruction)}
    return is_last and all(plan.buffer(name).role is Role.SCRATCH for name in met)


def _peers(instruction: Instruction) -> list[str]:
    """Return the buffers of peers that an instruction touches."""
    if isinstance(instruction, Fold):
        return [instruction.partials]
    steps = getattr(instruction, "body", ())
    return [step.buffer for step in steps if getattr(step, "peer", OWN) is not OWN]


def _tiles(tile: Tile) -> Iterator[tuple[str, Tile]]:
    """Yield a tile with other borders."""
    stores = [step for step in tile.body if isinstance(step, Store)]
    hides = all(store.buffer.startswith("temp.") for store in stores)
    indexed = [step for step in tile.body if isinstance(step, Load | Store)]
    is_spread = all(step.index is not Index.PIECE for step in indexed) and all(
        step.peer is EVERY for step in stores
    )
    for place, extent in enumerate(tile.shape):
        for change in (-1, 1):
            kind = "in part" if change < 0 and hides else f"extent {change:+}"
            shape = (*tile.shape[:place], extent + change, *tile.shape[place + 1 :])
            yield kind, replace(tile, shape=shape)
    if tile.cut is not None:
        yield "no cut", replace(tile, cut=None)
    # by ROWS(1), two dims are cut as by dim 0
    dim = 1 if isinstance(tile.cut, cc.ROWS) else 0
    if dim < len(tile.shape) and tile.cut != dim:
        kind = "another right cut" if stores and is_spread else "other cut"
        if hides and tile.cut is None:
            kind = "in part"
        yield kind, replace(tile, cut=dim)


def _steps(plan: Plan, tile: Tile, step: Step) -> Iterator[tuple[str, Step]]:
    """Yield a step that touches something else."""
    if isinstance(step, Store) and plan.ranks > 1:
        if step.peer is EVERY:
            yield "every made own", replace(step, peer=OWN)
        else:
            yield "own made every", replace(step, peer=EVERY)
    if isinstance(step, Reduce):
        wrong = {"is_partial": False} if step.is_partial else {"dims": step.dims - 1}
        yield "folded dims", replace(step, **wrong)
    if isinstance(step, Load) and isinstance(step.peer, int):
        yield "wrong peer", replace(step, peer=(step.peer + 1) % plan.ranks)
    if isinstance(step, Load | Store) and isinstance(step.index, Index):
        is_global = step.index is Index.GLOBAL
        if tile.cut is not None:
            other = Index.PIECE if is_global else Index.GLOBAL
            yield "index swapped", replace(step, index=other)
        rank = len(tile.shape)
        for change in (-1, 1) if rank else ():
            start = (*(0 for _ in tile.shape[:-1]), change)
            cut = plan.buffer(step.buffer).cut
            view = View(tuple(range(rank)), start, tile.shape, cut)
            yield f"shifted {change:+}", replace(step, index=view)

"""What a collective computes: constants, signs, dtypes, uneven pieces, sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from probes.cases import Cases
from probes.programs import DP, DTYPES_OF_NUMBERS, A, B, N, every_dtype, schedules
from probes.truth import check, drawn, pieces, reduced

import coconet as cc
from coconet.backends.c import compile_plan
from coconet.backends.c.words import Knobs
from coconet.lower import lower
from coconet.runtime.world import World
from coconet.tuning.search import search

CASES = Cases()


Make = Callable[[Any], Any]
Meaning = Callable[[Any], Any]

BESIDE: list[tuple[str, Make, Meaning]] = [
    ("sum + 3", lambda g: cc.all_reduce(g) + 3, lambda gs: gs.sum(0) + 3),
    ("sum(g + 3)", lambda g: cc.all_reduce(g + 3), lambda gs: (gs + 3).sum(0)),
    ("2 sum", lambda g: 2 * cc.all_reduce(g), lambda gs: 2 * gs.sum(0)),
    ("sum(2 g)", lambda g: cc.all_reduce(2 * g), lambda gs: 2 * gs.sum(0)),
    ("sum(-5 g)", lambda g: cc.all_reduce(-5 * g), lambda gs: -5 * gs.sum(0)),
    ("-5 sum", lambda g: -5 * cc.all_reduce(g), lambda gs: -5 * gs.sum(0)),
    ("mean + 3", lambda g: cc.all_reduce(g, "mean") + 3, lambda gs: gs.mean(0) + 3),
    ("-5 max", lambda g: -5 * cc.all_reduce(g, "max"), lambda gs: -5 * gs.max(0)),
    ("max(-5 g)", lambda g: cc.all_reduce(-5 * g, "max"), lambda gs: -5 * gs.min(0)),
]
"""Constants on either side of a reduction over ranks; gs has a row for each rank."""

FOLDED: list[tuple[str, Make, Meaning]] = [
    ("norm", cc.norm, lambda x: np.sqrt((x * x).sum())),
    ("norm 1", lambda x: cc.norm(x, ord=1), lambda x: np.abs(x).sum()),
    ("max", cc.max_, np.max),
    ("min", cc.min_, np.min),
    ("prod", cc.prod, np.prod),
]
POINTWISE: list[tuple[str, Make, Meaning]] = [
    ("abs", cc.abs_, np.abs),
    ("relu", lambda x: cc.relu(x - 2), lambda x: np.maximum(x - 2, 0)),
    ("clip", lambda x: cc.clamp(x, -2, 2.5), lambda x: np.clip(x, -2, 2.5)),
    ("sqrt", lambda x: cc.sqrt(x * x + 1), lambda x: np.sqrt(x * x + 1)),
    ("square", lambda x: x * x, np.square),
    ("maximum", lambda x: cc.maximum(x, 1), lambda x: np.maximum(x, 1)),
]
"""What a sum over ranks does not commute with."""

SIGNS: list[tuple[str, Make, Meaning]] = [
    *(
        (
            f"{name} of sum",
            lambda g, f=f: f(cc.all_reduce(g)),
            lambda gs, m=m: m(sum(gs)),
        )
        for name, f, m in (*FOLDED, *POINTWISE)
    ),
    *(
        (
            f"sum of {name}",
            lambda g, f=f: cc.all_reduce(f(g)),
            lambda gs, m=m: sum(map(m, gs)),
        )
        for name, f, m in (*FOLDED, *POINTWISE)
    ),
]


def of_local(make: Make) -> cc.Program:
    """Return a program of one Local tensor; all have one name."""
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), DP)
    return cc.program("k", inputs=[g], outputs=[make(g)])


@CASES.on(3)
def constants_beside_a_sum(world: World) -> None:
    """pytorch/pytorch#163193, #147180: + 3 once a rank, -5 * g from 2 * g's cache."""
    rows = [np.array([1, -2, 3, -4.5, 0, 7]) * (rank + 1) for rank in range(3)]
    gs = np.array(rows, np.float32)
    steps = [
        (what, cc.compile(found[name]), meaning(gs))
        for what, make, meaning in BESIDE
        for found in [schedules(of_local(make))]
        for name in ("as_written", list(found)[-1])
    ]
    for what, step, need in (*steps, *reversed(steps)):
        check(what, step(gs[world.rank]), np.asarray(need, np.float32))


@CASES.on(2)
def numbers_of_both_signs(world: World) -> None:
    """pytorch/pytorch#165962, #159856, #174536: norm, max, abs .. before the sum."""
    gs = np.array([[1, 3], [2, -1]], np.float32)
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), DP)
    total = cc.all_reduce(g)
    apart = cc.program("apart", inputs=[g], outputs=[row[1](g) for row in SIGNS])
    one = cc.program("one", inputs=[g], outputs=[row[1](total) for row in POINTWISE])
    found = {name: (s, POINTWISE, gs.sum(0)) for name, s in schedules(one).items()}
    found["apart"] = (apart.schedule(), SIGNS, gs)
    for name, (schedule, rows, x) in found.items():
        results = cc.compile(schedule)(gs[world.rank])
        for (what, _, meaning), result in zip(rows, results, strict=True):
            check(f"{what}, {name}", result, np.asarray(meaning(x), np.float32))


@CASES.on(2, 3)
def any_number_of_elements_of_any_dtype(world: World) -> None:
    """microsoft/mscclpp#682: element counts that are not aligned were refused."""
    step = cc.compile(every_dtype())
    for size in (1, 2, 3, 7, 63, 65, 1009, 10007):
        gs = [
            [drawn(dtype, (size,), rank, size) for rank in range(world.size)]
            for dtype in DTYPES_OF_NUMBERS
        ]
        ps = [drawn(dtype, (size,), 99, size) for dtype in DTYPES_OF_NUMBERS]
        given = [p.copy() for p in ps]
        step(*(each[world.rank] for each in gs), *given)
        for dtype, each, p, got in zip(DTYPES_OF_NUMBERS, gs, ps, given, strict=True):
            with np.errstate(all="ignore"):
                check(f"{dtype} of {size}", got, p * reduced("sum", each))


@CASES.on(3)
def every_reduction_of_every_dtype(world: World) -> None:
    """pytorch/pytorch#162338: on the CPU, mean was sum."""
    inputs: list[cc.Tensor] = []
    outputs: list[cc.Tensor] = []
    need: list[Any] = []
    given: list[Any] = []
    for dtype in DTYPES_OF_NUMBERS:
        g = cc.tensor(f"g_{dtype}", dtype, (300,), cc.Local(), DP)
        gs = [drawn(dtype, (300,), rank) for rank in range(world.size)]
        inputs.append(g)
        given.append(gs[world.rank])
        for op in ("sum", "prod", "max", "min", *(["mean"] * dtype.is_float)):
            whole = reduced(op, gs)
            outputs += [cc.all_reduce(g, op), cc.reduce_scatter(g, op)]
            need += [whole, pieces(whole, cc.FLAT, world.size)[world.rank]]
    program = cc.program("reductions", inputs=inputs, outputs=outputs)
    got = cc.compile(program)(*given)
    for value, array, right in zip(program.outputs, got, need, strict=True):
        check(str(value.op), array, right)


SHAPES = ((5, 3), (3, 1), (1, 2), (2, 70), (0, 3), (9, 40), (4, 3), (2, 64))


@CASES.on(2, 3)
def uneven_and_empty_pieces(world: World) -> None:
    """pytorch/ao#3982, pytorch/pytorch#137005: a rank without rows crashed, or hung."""
    for cut in (0, cc.FLAT, cc.ROWS(1)):
        step = cc.compile(_folds(cut))
        # on 3 ranks, (4, 3) and (2, 64) leave the last rank alone without any
        for rows, columns in SHAPES:
            # all of one sign: the 0 that an empty piece might give would be noticed
            for least in (1, -9):
                whole = drawn(cc.i32, (rows, columns), rows, columns) % 8 + least
                whole = whole.astype(np.float32)
                mine = pieces(whole, cut, world.size)[world.rank]
                got = step.bind(sizes={"A": rows, "B": columns}, x=mine)()
                for number, pair in enumerate(zip(got, _folded(whole), strict=True)):
                    what = f"fold {number} of {rows} x {columns} by {cut}"
                    check(what, *map(np.asarray, pair))


def _folds(cut: Any) -> cc.Program:
    """Folds that need every rank's piece."""
    x = cc.tensor("x", cc.f32, (A, B), cc.Sliced(cut), DP)
    whole = cc.all_gather(x) if cut == cc.ROWS(1) else x
    folds = [cc.sum_, cc.max_, cc.min_, cc.norm, lambda x: cc.norm(x, ord=1)]
    outputs = [fold(whole) for fold in folds] + [cc.max_(cc.abs_(whole))]
    columns = x if cut == 0 else cc.all_gather(x)
    outputs += [fold(columns, 0) for fold in folds[:4]]
    return cc.program("folds", inputs=[x], outputs=outputs)


def _folded(whole: Any) -> list[Any]:
    return [
        whole.sum(),
        whole.max(initial=-np.inf),
        whole.min(initial=np.inf),
        np.sqrt((whole * whole).sum()),
        np.abs(whole).sum(),
        np.abs(whole).max(initial=-np.inf),
        whole.sum(0),
        whole.max(0, initial=-np.inf),
        whole.min(0, initial=np.inf),
        np.sqrt((whole * whole).sum(0)),
    ]


@CASES.on(3)
def what_else_is_sent_changes_no_bit(world: World) -> None:
    """vllm-project/vllm#57042, NVIDIA/nccl#157, pytorch/pytorch#131244: size matters.

    ROCm/rocm-systems#11661, pytorch/pytorch#197890: ranks differed.
    """
    program = _normed()
    weight = drawn(cc.f32, (64,), 7)
    whole = [drawn(cc.f32, (8, 64), 5, rank) for rank in range(world.size)][world.rank]
    seen: set[bytes] = set()
    for schedule in search(program).schedules:
        plan = lower(schedule.result, world.size)
        for knobs in (Knobs(), _ODD):
            step = compile_plan(plan, world, knobs=knobs)
            for rows in (8, 4, 1):
                parts = [whole[i : i + rows] for i in range(0, 8, rows)]
                results = [step(part, weight) for part in parts]
                seen.add(np.concatenate(results).tobytes())
    assert len(seen) == 1
    _check_same_on_all(world, seen.pop())


_ODD = Knobs(
    block_elements=64, stream_bytes=0, threads=3, round_elements=32, inbox_bytes=0
)


def _normed() -> cc.Program:
    """Rows, reduced over ranks, then over their elements."""
    g = cc.tensor("g", cc.f32, (A, B), cc.Local(), DP)
    w = cc.tensor("w", cc.f32, (B,), cc.Replicated(), DP)
    total = cc.all_reduce(g, "mean")
    return cc.program("normed", inputs=[g, w], outputs=[cc.rms_norm(total, w)])


def _check_same_on_all(world: World, mine: bytes) -> None:
    """Compare bits between ranks by what the comparison is about: max is min."""
    x = cc.tensor("x", cc.u8, (N,), cc.Local(), DP)
    outputs = [cc.all_reduce(x, "max"), cc.all_reduce(x, "min")]
    step = cc.compile(cc.program("same", inputs=[x], outputs=outputs))
    most, least = step(np.frombuffer(mine, np.uint8).copy())
    check("what all ranks have", most, least)


@CASES.on(3)
def buckets_change_no_bit(world: World) -> None:
    """pytorch/pytorch#131244, #197890: gradients depended on how they were bucketed."""
    rng = np.random.default_rng(0)
    lengths = [int(n) for n in rng.integers(0, 200, 16)]
    for dtype in (cc.f32, cc.bf16):
        g = cc.tensor("g", dtype, (N,), cc.Local(), DP)
        program = cc.program("k", inputs=[g], outputs=[cc.all_reduce(g, "mean") * 3])
        grads = [drawn(dtype, (n,), i, world.rank) for i, n in enumerate(lengths)]
        seen: set[bytes] = set()
        for schedule in schedules(program).values():
            step = cc.compile(schedule)
            for count in (1, 7, len(grads)):
                buckets = [grads[i : i + count] for i in range(0, len(grads), count)]
                results = [step(np.concatenate(bucket)) for bucket in buckets]
                seen.add(np.concatenate(results).tobytes())
        assert len(seen) == 1
        _check_same_on_all(world, seen.pop())

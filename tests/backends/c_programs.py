"""Programs for the C backend: layouts, dtypes, broadcasts, outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rank_files import load

import coconet as cc
from coconet.backends.c import compile_plan
from coconet.backends.c.words import Knobs
from coconet.errors import ScheduleError
from coconet.interp import first_difference, random_arguments
from coconet.lower import lower
from coconet.schedule.library import fused, split_fused
from coconet.verification.expected import expected_results

dp = cc.Group("dp")
B, S, H = cc.dims("B S H")


def chain(seed: int, dtype: cc.DType = cc.f32, length: int = 12) -> cc.Program:
    """A random chain of element-wise ops behind an all-reduce, drawn by a seed."""
    rng = np.random.default_rng(seed)
    (N,) = cc.dims("N")
    g = cc.tensor("g", dtype, (N,), cc.Local(), dp)
    p = cc.tensor("p", dtype, (N,), cc.Replicated(), dp)
    q = cc.tensor("q", dtype, (N,), cc.Replicated(), dp)
    a = cc.scalar("a", cc.f64 if dtype.is_float else cc.i64)
    known = [cc.all_reduce(g, "sum"), p, q]
    for _ in range(length):
        x, y = (known[int(i)] for i in rng.integers(0, len(known), 2))
        made = [
            lambda x=x, y=y: x + y,
            lambda x=x, y=y: x - y * a,
            lambda x=x, y=y: cc.maximum(x, y),
            lambda x=x, y=y: cc.minimum(x, -y) if dtype.kind != "uint" else x * y,
            lambda x=x, y=y: cc.where(x < y, x, 3),
            lambda x=x, y=y: cc.relu(x) * y,
            lambda x=x, y=y: (
                cc.sqrt(x * x + 1) / (y * y + 2) if dtype.is_float else x * y + 7
            ),
            lambda x=x, y=y: cc.abs_(x) if dtype.kind != "uint" else x + y,
        ]
        known.append(made[int(rng.integers(len(made)))]())
    out = known[-1] + known[0]
    p1 = cc.update(p, out - q)
    return cc.program("chain", inputs=[g, p, q], outputs=[p1, out])


def attention_epilogue() -> cc.Program:
    """The paper's bias and residual behind an all-reduce, with broadcast operands."""
    x = cc.tensor("x", cc.f32, (B, S, H), cc.Local(), dp)
    b = cc.tensor("b", cc.f32, (H,), cc.Replicated(), dp)
    c = cc.tensor("c", cc.f32, (B, 1, H), cc.Replicated(), dp)
    d = cc.tensor("d", cc.f32, (S, 1), cc.Replicated(), dp)
    r = cc.tensor("r", cc.f32, (B, S, H), cc.Replicated(), dp)
    total = cc.all_reduce(x)
    out = cc.relu(total + b) * c + r / (d * d + 1)
    return cc.program("epilogue", inputs=[x, b, c, d, r], outputs=[out])


def dropped(dtype: cc.DType, cut: int) -> cc.Program:
    """Dropout of sums, pieces and transposes, in one kernel with what follows."""
    x = cc.tensor("x", dtype, (S, H), cc.Local(), dp)
    y = cc.tensor("y", dtype, (S, H), cc.Sliced(cut), dp)
    b = cc.tensor("b", dtype, (H,), cc.Replicated(), dp)
    seed = cc.scalar("seed", cc.i64)
    out = cc.dropout(cc.all_reduce(x) + b, 0.25, seed) * 2 + b
    part = cc.dropout(y, 0.5, seed) - cc.dropout(y, 0.75, seed)
    turned = cc.dropout(cc.transpose(cc.all_gather(y), (1, 0)), 0.5, seed)
    bias = cc.dropout(b, 0.5, seed + 1) + y
    outputs = [out, part, turned, bias]
    return cc.program("dropped", inputs=[x, y, b, seed], outputs=outputs)


def sliced_inputs() -> cc.Program:
    """Inputs cut by a dim, gathered and computed on, with no reduction over ranks."""
    x = cc.tensor("x", cc.f32, (S, H), cc.Sliced(0), dp)
    y = cc.tensor("y", cc.f32, (S, H), cc.Sliced(0), dp)
    b = cc.tensor("b", cc.f32, (H,), cc.Replicated(), dp)
    k = cc.tensor("k", cc.f32, (S, 1), cc.Sliced(0), dp)
    z = x * y + b - k
    whole = cc.all_gather(z)
    return cc.program("sliced", inputs=[x, y, b, k], outputs=[z, whole])


def old_value() -> cc.Program:
    """The old value is read after the update, on every rank."""
    (N,) = cc.dims("N")
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), dp)
    p = cc.tensor("p", cc.f32, (N,), cc.Replicated(), dp)
    p1 = cc.update(p, p - cc.all_reduce(g))
    ratio = p1 / (p * p + 1)
    return cc.program("old_value", inputs=[g, p], outputs=[p1, ratio])


def mixed() -> cc.Program:
    """Comparisons, bools and casts between f32, f64 and integers."""
    (N,) = cc.dims("N")
    g = cc.tensor("g", cc.f64, (N,), cc.Local(), dp)
    n = cc.tensor("n", cc.i32, (N,), cc.Replicated(), dp)
    on = cc.tensor("on", cc.bool_, (N,), cc.Replicated(), dp)
    avg = cc.cast(cc.all_reduce(g, "mean"), cc.f32)
    real = cc.cast(n, cc.f32)
    both = cc.logical_and(on, cc.logical_not(avg < real))
    out = cc.where(both, avg * real, 0.5)
    count = cc.cast(both, cc.i64) + cc.cast(n, cc.i64)
    return cc.program("mixed", inputs=[g, n, on], outputs=[out, count])


def least() -> cc.Program:
    """The least literal of i64, whose opposite is none, beside reals and integers."""
    (N,) = cc.dims("N")
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), dp)
    n = cc.tensor("n", cc.i64, (N,), cc.Replicated(), dp)
    total, number = cc.all_reduce(g), -(1 << 63)
    outputs = [total * number, total**number, n + number, cc.where(n > 0, n, number)]
    return cc.program("least", inputs=[g, n], outputs=outputs)


def truth() -> cc.Program:
    """Bools that meet integers: what is not 0 is true, also when it is even."""
    (N,) = cc.dims("N")
    on = cc.tensor("on", cc.bool_, (N,), cc.Local(), dp)
    k = cc.scalar("k", cc.i64)
    either = cc.logical_or(on, 256)
    both = cc.logical_and(on, k * 2)
    chosen = cc.where(on, on, k * 256)
    count = cc.cast(chosen, cc.i32) + cc.cast(both, cc.i32)
    return cc.program("truth", inputs=[on, k], outputs=[either, both, chosen, count])


def master_weights(half: cc.DType) -> cc.Program:
    """Mixed precision: a 16-bit gradient, f32 weights and momentum, a 16-bit copy."""
    (N,) = cc.dims("N")
    g = cc.tensor("g", half, (N,), cc.Local(), dp)
    p = cc.tensor("p", cc.f32, (N,), cc.Replicated(), dp)
    m = cc.tensor("m", cc.f32, (N,), cc.Replicated(), dp)
    h = cc.tensor("h", half, (N,), cc.Replicated(), dp)
    lr = cc.scalar("lr")
    avg = cc.all_reduce(cc.cast(g, cc.f32), "mean")
    m1 = cc.update(m, 0.9 * m + avg)
    p1 = cc.update(p, p - lr * m1)
    h1 = cc.update(h, cc.cast(p1, half) + h * 0)
    return cc.program("master", inputs=[g, p, m, h, lr], outputs=[m1, p1, h1])


def reduction(op: str, dtype: cc.DType) -> cc.Program:
    """One all-reduce, and nothing else."""
    (N,) = cc.dims("N")
    g = cc.tensor("g", dtype, (N,), cc.Local(), dp)
    return cc.program("reduction", inputs=[g], outputs=[cc.all_reduce(g, op)])


def programs() -> Iterator[tuple[str, cc.Program]]:
    """Every program here."""
    integers = (cc.i8, cc.u8, cc.i32, cc.u32, cc.i64, cc.u64)
    for seed in range(4):
        yield f"chain {seed}", chain(seed)
    yield "chain f64", chain(7, cc.f64)
    for dtype in integers:
        yield f"chain {dtype}", chain(11, dtype, length=6)
    for dtype in (cc.bf16, cc.f16):
        yield f"chain {dtype}", chain(13, dtype)
        yield f"master {dtype}", master_weights(dtype)
        yield f"dropped {dtype}", dropped(dtype, 0)
        for op in ("sum", "mean", "max"):
            yield f"{op} {dtype}", reduction(op, dtype)
    yield "epilogue", attention_epilogue()
    yield "sliced", sliced_inputs()
    yield "dropped", dropped(cc.f32, 1)
    yield "dropped f64", dropped(cc.f64, 0)
    yield "old value", old_value()
    yield "mixed", mixed()
    yield "truth", truth()
    yield "least", least()
    for op in ("sum", "mean", "max", "min", "prod"):
        yield f"{op} f32", reduction(op, cc.f32)
    for dtype in integers:
        yield f"sum {dtype}", reduction("sum", dtype)


def schedules(program: cc.Program) -> dict[str, cc.Schedule]:
    """The library's schedules, and the fused ones by every other cut."""
    found = dict(cc.library(program))
    rank = max(len(value.type.shape) for value in program.tensors)
    for cut in (*range(rank), *(cc.ROWS(k) for k in range(1, rank))):
        for make in (fused, split_fused):
            try:
                found[f"{make.__name__} by {cut}"] = make(program, by=cut)
            except ScheduleError:
                continue
    return found


def sizes_of(program: cc.Program) -> list[dict[str, int]]:
    """A few sizes: uneven, empty, prime."""
    if len(program.dims) == 1:
        return [{program.dims[0].name: n} for n in (0, 1, 65, 4099)]
    cases = [(2, 3, 5), (1, 1, 1), (3, 0, 2), (2, 7, 67), (5, 2, 1), (2, 3, 0)]
    names = [dim.name for dim in program.dims]
    return [dict(zip(names, case[-len(names) :], strict=True)) for case in cases]


def check_programs() -> list[str]:
    """Run on one rank: every program, schedule and size; returns what differs."""
    return _check((label, p, schedules(p)) for label, p in programs())


def check_reductions() -> list[str]:
    """Run on one rank: reductions and views as written; returns what differs."""
    reduction_programs = load(Path(__file__).parents[1] / "ops/reduction_programs.py")
    found = (*reduction_programs.reductions(), *reduction_programs.views())
    labelled = ((f"{p.name} {n}", p, cc.library(p)) for n, p in enumerate(found))
    return _check(labelled, Knobs(threads=3, block_elements=100))


def _check(
    labelled: Iterable[tuple[str, cc.Program, dict[str, cc.Schedule]]],
    knobs: Knobs | None = None,
) -> list[str]:
    world = cc.init()
    wrong: list[str] = []
    cases = 0
    knobs = knobs or Knobs()
    for label, program, found in labelled:
        for name, schedule in found.items():
            plan = lower(schedule.result, world.size)
            step = compile_plan(plan, world, knobs=knobs)
            rounds = step.with_knobs(replace(knobs, round_elements=16, inbox_bytes=0))
            for number, sizes in enumerate(sizes_of(program)):
                cases += 1
                tried = rounds if number % 2 else step
                found = _difference(world, tried, program, schedule, sizes, number)
                if found:
                    wrong.append(
                        f"{label}, {name}, {sizes}, rank {world.rank}: {found}"
                    )
    return [*wrong, f"{cases} cases"]


def _difference(
    world: Any,
    step: Any,
    program: cc.Program,
    schedule: cc.Schedule,
    sizes: dict[str, int],
    seed: int,
) -> str:
    result = schedule.result
    need = expected_results(program, result, world.size, sizes, seed)
    arguments = random_arguments(result, world.size, sizes, seed)
    mine = {v.name: arguments[v.name][world.rank] for v in result.tensors}
    scalars = {v.name: arguments[v.name] for v in result.scalars}
    returned = step.bind(sizes=sizes, **mine)(**scalars)
    names = [value.name for value in result.outputs]
    outputs = (returned,) if len(names) == 1 else returned or ()
    got = {n: (array,) for n, array in zip(names, outputs, strict=True)}
    got |= {v.inputs[0].name: (mine[v.inputs[0].name],) for v in result.effects}
    expected = {name: (arrays[world.rank],) for name, arrays in need.items()}
    return str(first_difference(got, expected) or "")

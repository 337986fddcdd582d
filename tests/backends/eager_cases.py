"""What the worlds of test_eager run: the eager backend beside the interpreter."""

from __future__ import annotations

import itertools
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.distributed as dist
from rank_files import load

import coconet as cc
from coconet.backends.eager import EagerStep
from coconet.errors import GroupError, ShapeError
from coconet.interp import random_arguments, run_program
from coconet.ir import DTYPES, DType
from coconet.ops import ELEMENTWISE, Cast
from coconet.ops.elementwise import elementwise_function
from coconet.settings import launch
from coconet.workloads.optimizers import adam, sgd

PROGRAMS = load(Path(__file__).parents[1] / "ops/reduction_programs.py")
SIZES = (0, 1, 63, 64, 65, 1000)
DP = cc.Group("dp")
FLOATS = (cc.f16, cc.bf16, cc.f32, cc.f64)
INTS = (cc.i8, cc.u8, cc.i32, cc.u32, cc.i64, cc.u64)
CUTS = (cc.FLAT, cc.ROWS(1), 0, 1)


@dataclass(frozen=True)
class World:
    rank: int
    ranks: int
    group: Any = None


def check(
    world: World,
    program: Any,
    arguments: Mapping[str, Any],
    sizes: Mapping[str, int] | None = None,
    form: Callable[[Any], Any] | None = None,
) -> None:
    """Run on this rank and compare with what the interpreter gives for it."""
    form = form or as_tensor
    sizes = sizes or {}
    need = run_program(program, world.ranks, sizes, arguments)
    scalars = {value.name: arguments[value.name] for value in program.scalars}
    tensors = {
        value.name: form(arguments[value.name][world.rank].copy())
        for value in program.tensors
    }
    bound = EagerStep(program, world.group).bind(sizes=sizes, **tensors)
    given = bound(**scalars)
    outputs = given if isinstance(given, tuple) else (given,)
    for name, arrays in need.effects.items():
        compare(world, f"{program.name}.{name}", tensors[name], arrays[world.rank])
    for value, output in zip(program.outputs, outputs, strict=bool(program.outputs)):
        array = need.outputs[value.name][world.rank]
        compare(world, f"{program.name}.{value.name}", output, array)
    for value in program.tensors:
        if value.name not in need.effects:
            untouched = arguments[value.name][world.rank]
            compare(world, f"argument {value.name}", tensors[value.name], untouched)


def compare(world: World, what: str, got: Any, need: Any) -> None:
    got, need = as_array(got), np.asarray(need)
    assert got.dtype == need.dtype, f"{what}: {got.dtype} should be {need.dtype}"
    assert got.shape == need.shape, f"{what}: {got.shape} should be {need.shape}"
    bits = np.dtype(f"u{need.itemsize}")
    equal = got.view(bits) == need.view(bits)
    if need.dtype.kind not in "iub":
        wide, true = got.astype(np.float64), need.astype(np.float64)
        equal |= np.isnan(wide) & np.isnan(true)
        if world.ranks > 2:  # the engine adds the ranks in its own order
            eps = float(ml_dtypes.finfo(need.dtype).eps)
            equal |= np.isclose(wide, true, rtol=16 * eps, atol=64 * eps)
    where = np.argwhere(~equal)
    if where.size:
        at = tuple(where[0])
        raise AssertionError(f"{what}{list(at)} is {got[at]!r}, should be {need[at]!r}")


def as_tensor(array: Any) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_array(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return np.ascontiguousarray(x).reshape(x.shape)
    x = x.detach().contiguous()
    if x.dtype is torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def every_second(array: Any) -> Any:
    return as_tensor(np.repeat(array[..., None], 2, axis=-1))[..., 0]


def column_major(array: Any) -> Any:
    dims = tuple(reversed(range(array.ndim)))
    return as_tensor(array.transpose(dims).copy()).permute(dims)


def backwards(array: Any) -> Any:
    reverse = tuple(slice(None, None, -1) for _ in array.shape)
    return array[reverse].copy()[reverse]


FORMS = {
    "torch": as_tensor,
    "numpy": lambda array: array,
    "every second": every_second,
    "column major": column_major,
    "backwards": backwards,
}


def schedules(program: Any, updated: list[str], state: list[str]) -> Iterator[Any]:
    """Yield the program as it is after every step of the paper's schedule."""
    yield program
    draft = program.schedule()
    rs, ag = draft.split("avg")
    yield draft.program
    region, tail = draft.reorder(ag, updated)
    yield draft.program
    if state:
        draft.slice_state(*state)
        yield draft.program
        draft.dead(*(f"{name}1_ag" for name in state))
    draft.fuse(rs, region, tail)
    yield draft.program


def optimizers(world: World, program: Any, updated: Any, state: Any) -> None:
    for scheduled in schedules(program, updated, state):
        for n in SIZES:
            arguments = random_arguments(scheduled, world.ranks, {"N": n}, n)
            for second_moment in arguments.get("v", ()):
                np.abs(second_moment, out=second_moment)
            check(world, scheduled, arguments, {"N": n})


def case_sgd(world: World) -> None:
    optimizers(world, sgd, ["p1"], [])


def case_adam(world: World) -> None:
    optimizers(world, adam, ["m1", "v1", "p1"], ["m", "v"])


def special(dtype: DType) -> Any:
    """Values that show mistakes of an element-wise op."""
    kind = dtype.numpy
    if dtype is cc.bool_:
        return np.array([False, True])
    if not dtype.is_float:
        info = np.iinfo(kind)
        numbers = {info.min, info.max, 0, 1, 2, 3, info.max - 1, info.max // 2}
        return np.array(sorted(numbers), kind)
    tiny = float(ml_dtypes.finfo(kind).tiny)
    numbers = [0.0, -0.0, 1.0, np.nan, -np.inf, -1.5, tiny / 4, -np.nan, np.inf]
    numbers += [3.0, tiny, 6e4, -7e4, 1e30, *np.random.default_rng(0).random(60)]
    with np.errstate(all="ignore"):
        return np.array(numbers).astype(kind)


def case_elementwise(world: World) -> None:
    """Every op on every combination of special values, whole and in pieces."""
    for name, meaning in ELEMENTWISE.items():
        for dtype in (d for d in DTYPES.values() if d.kind in meaning.kinds):
            values = special(dtype)[: 9 if meaning.arity == 3 else None]
            grid = np.meshgrid(*[values] * meaning.arity)
            arrays = [axis.reshape(-1) for axis in grid]
            names = "abc"[: meaning.arity]
            operands = [
                cc.tensor(x, dtype, array.shape, cc.Replicated(), DP)
                for x, array in zip(names, arrays, strict=True)
            ]
            whole = elementwise_function(name)(*operands)
            piece = elementwise_function(name)(cc.slice_(operands[0]), *operands[1:])
            outputs = [whole, piece]
            program = cc.program(f"{name}_{dtype}", inputs=operands, outputs=outputs)
            pairs = zip(names, arrays, strict=True)
            check(world, program, {x: [array] * world.ranks for x, array in pairs})


def case_scalars(world: World) -> None:
    """Scalar arithmetic, and scalars that are rounded where they meet a tensor."""
    minimum, maximum, clamp, sqrt, abs_ = map(
        elementwise_function, ("minimum", "maximum", "clamp", "sqrt", "abs")
    )
    s, t, k = cc.scalar("s"), cc.scalar("t"), cc.scalar("k", cc.i64)
    for dtype in FLOATS:
        x = cc.tensor("x", dtype, (3, 50), cc.Replicated(), DP)
        u = (2.5 - s**k) / (1 - t**0.5) + minimum(s, -t) * maximum(s, 0.1)
        outputs = [
            x * u - k,
            s / x,
            clamp(x, -s, t),
            cc.where(x < s, x, abs_(-t)),
            cc.where(x >= 0.1, k, x),
            cc.slice_(x, 1) * sqrt(s) + 1 / t,
        ]
        program = cc.program("scalars", inputs=[x, s, t, k], outputs=outputs)
        check(world, program, random_arguments(program, world.ranks, {}, 1))
    for dtype in INTS:
        x = cc.tensor("x", dtype, (70,), cc.Replicated(), DP)
        program = cc.program("wrap", inputs=[x, k], outputs=[x * k - 300, x + k * -7])
        check(world, program, random_arguments(program, world.ranks, {}, 2))


def case_cast(world: World) -> None:
    for source, target in itertools.product(DTYPES.values(), repeat=2):
        is_refused = source.is_float and not target.is_float
        if is_refused or (target is cc.bool_) != (source is cc.bool_ is target):
            continue
        x = cc.tensor("x", source, special(source).shape, cc.Replicated(), DP)
        program = cc.program("cast", inputs=[x], outputs=[x.emit(Cast(target))])
        check(world, program, {"x": [special(source)] * world.ranks})


def case_dropout(world: World) -> None:
    seed = cc.scalar("seed", cc.i64)
    for dtype, cut in itertools.product(FLOATS, (None, *CUTS)):
        layout = cc.Replicated() if cut is None else cc.Sliced(cut)
        x = cc.tensor("x", dtype, (5, 13), layout, DP)
        outputs = [cc.dropout(x, p, seed) for p in (0, 0.3, 1)]
        program = cc.program("dropout", inputs=[x, seed], outputs=outputs)
        check(world, program, random_arguments(program, world.ranks, {}, 4))


def case_collectives(world: World) -> None:
    """Every reduction of every dtype by every cut; uneven and empty pieces."""
    odd = [(cc.f32, shape) for shape in ((1, 3), (130, 2), (0, 4), (4, 0))]
    for dtype, shape in [*((dtype, (5, 13)) for dtype in (*FLOATS, *INTS)), *odd]:
        x = cc.tensor("x", dtype, shape, cc.Local(), DP)
        ops = ["sum", "prod", "max", "min"] + ["mean"] * dtype.is_float
        outputs = [cc.all_reduce(x, op) for op in ops]
        for op, cut in itertools.product(ops, CUTS):
            piece = cc.reduce_scatter(x, op, cut)
            outputs += [piece, cc.all_gather(piece)]
        program = cc.program("collectives", inputs=[x], outputs=outputs)
        check(world, program, random_arguments(program, world.ranks, {}, 3))


def case_extremes(world: World) -> None:
    """Max and min over ranks keep NaN, signs of zero, unsigned order; means fit."""
    for dtype in (*FLOATS, *INTS):
        first, second = (
            axis.reshape(-1) for axis in np.meshgrid(*[special(dtype)[:20]] * 2)
        )
        x = cc.tensor("x", dtype, first.shape, cc.Local(), DP)
        outputs = [cc.all_reduce(x, "max"), cc.reduce_scatter(x, "min")]
        if dtype.is_float:
            outputs.append(cc.all_reduce(x, "mean"))
        program = cc.program("extremes", inputs=[x], outputs=outputs)
        check(world, program, {"x": [first, second, first][: world.ranks]})


def case_gather(world: World) -> None:
    for dtype, cut in itertools.product(DTYPES.values(), (*CUTS, 2, cc.ROWS(2))):
        x = cc.tensor("x", dtype, (5, 2, 7), cc.Sliced(cut), DP)
        program = cc.program("gather", inputs=[x], outputs=[cc.all_gather(x)])
        check(world, program, random_arguments(program, world.ranks, {}, 4))


def case_reductions(world: World) -> None:
    """Reductions and views on every layout, at sizes with zeros."""
    found = (*PROGRAMS.reductions(), *PROGRAMS.views())
    for program in found:
        for number, sizes in enumerate(PROGRAMS.SIZES):
            arguments = random_arguments(program, world.ranks, sizes, number)
            check(world, program, arguments, sizes)


def case_beside(world: World) -> None:
    """Replicated operands of every broadcast shape beside pieces of every cut."""
    B, S, H = cc.dims("B S H")
    shapes = ((B, S, H), (H,), (B, 1, H), (S, 1), (1, 1, 1), (), (1, H))
    for sizes in ({"B": 3, "S": 5, "H": 4}, {"B": 1, "S": 1, "H": 1}):
        for cut in (cc.FLAT, cc.ROWS(1), cc.ROWS(2), 0, 1, 2):
            x = cc.tensor("x", cc.f32, (B, S, H), cc.Sliced(cut), DP)
            others = [
                cc.tensor(f"r{i}", cc.f32, shape, cc.Replicated(), DP)
                for i, shape in enumerate(shapes)
            ]
            outputs = [other - x for other in others]
            outputs += [cc.where(x < other, x, other) for other in others]
            program = cc.program("beside", inputs=[x, *others], outputs=outputs)
            arguments = random_arguments(program, world.ranks, sizes, 5)
            check(world, program, arguments, sizes)
    bias = cc.tensor("bias", cc.f32, (H,), cc.Sliced(0), DP)
    x = cc.tensor("x", cc.f32, (B, S, H), cc.Replicated(), DP)
    program = cc.program("narrow", inputs=[bias, x], outputs=[bias * x])
    sizes = {"B": 2, "S": 3, "H": 5}
    check(world, program, random_arguments(program, world.ranks, sizes, 6), sizes)


def case_forms(world: World) -> None:
    """Whatever the memory of an argument looks like, and it is written in place."""
    for dtype, (name, form) in itertools.product((cc.f32, cc.bf16), FORMS.items()):
        g = cc.tensor("g", dtype, (6, 30), cc.Local(), DP)
        p = cc.tensor("p", dtype, (6, 30), cc.Replicated(), DP)
        m = cc.tensor("m", dtype, (6, 30), cc.Sliced(1), DP)
        total = cc.all_reduce(g)
        m1 = cc.update(m, m + cc.reduce_scatter(g, "mean", 1))
        outputs = [m1, cc.update(p, p - total), total, cc.slice_(p, 0)]
        program = cc.program("forms", inputs=[g, p, m], outputs=outputs)
        arguments = random_arguments(program, world.ranks, {}, 7)
        try:
            check(world, program, arguments, form=form)
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error


def case_neighbours(world: World) -> None:
    """An update of a strided tensor writes nothing between its elements."""
    g = cc.tensor("g", cc.f32, (10,), cc.Local(), DP)
    p = cc.tensor("p", cc.f32, (10,), cc.Replicated(), DP)
    outputs = [cc.update(p, p + cc.all_reduce(g))]
    step = EagerStep(cc.program("strided", inputs=[g, p], outputs=outputs))
    for base in (torch.zeros(10, 2), np.zeros((10, 2), np.float32)):
        step(g=torch.ones(10), p=base[:, 1])
        assert np.asarray(base).tolist() == [[0, world.ranks]] * 10


def case_old_and_new(world: World) -> None:
    """A name means one value, even if two tensors change places."""
    p = cc.tensor("p", cc.f32, (9,), cc.Replicated(), DP)
    q = cc.tensor("q", cc.f32, (9,), cc.Replicated(), DP)
    p1, q1 = cc.update(p, q), cc.update(q, p)
    old, new = p + 0.0, p1 * 2.0
    program = cc.program("swap", inputs=[p, q], outputs=[p1, q1, old, new])
    for form in FORMS.values():
        arguments = random_arguments(program, world.ranks, {}, 8)
        check(world, program, arguments, form=form)


def case_fresh_results(world: World) -> None:
    """Results share memory with no argument, no other result and no later one."""
    p = cc.tensor("p", cc.f32, (5, 7), cc.Replicated(), DP)
    piece = cc.slice_(p, 0)
    outputs = [piece, cc.all_gather(piece), p.emit(Cast(cc.f32)), piece + 0.0]
    step = EagerStep(cc.program("views", inputs=[p], outputs=outputs))
    tensor = torch.arange(35.0).reshape(5, 7)
    results = [*step(tensor), *step(tensor)]
    for number, result in enumerate(results):
        result.fill_(number)
    assert torch.equal(tensor.reshape(-1), torch.arange(35.0))
    assert all(bool((r == number).all()) for number, r in enumerate(results))
    assert all(isinstance(x, np.ndarray) for x in step(tensor.numpy()))


def case_parameters(world: World) -> None:
    """A leaf that requires grad is updated in place, and autograd is told."""
    p = torch.nn.Parameter(torch.ones(4))
    version = p._version
    EagerStep(sgd)(torch.full((4,), float(world.rank)), p, lr=1.0)
    mean = (world.ranks - 1) / 2
    assert p.tolist() == [1 - mean] * 4
    assert p.grad is None
    assert p._version > version


def case_sizes(world: World) -> None:
    """A dim that no argument shows is given by hand; the rest as in a call."""
    (N,) = cc.dims("N")
    x = cc.tensor("x", cc.f32, (N,), cc.Sliced(0), DP)
    s = cc.scalar("s")
    step = EagerStep(cc.program("cut", inputs=[x, s], outputs=[cc.all_gather(x * s)]))
    mine = torch.arange(5.0).chunk(world.ranks)[world.rank]
    with pytest.raises(ShapeError) as error:
        step(mine, 2.0)
    assert "sizes" in error.value.fix
    assert step.bind(x=mine, sizes={"N": 5})(2.0).tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(ShapeError):
        step.bind(x=mine, sizes={"N": 50})


def case_subgroup(world: World) -> None:
    """Position in the group decides the piece, not the global rank."""
    members = list(range(world.ranks))[-2:]
    group = dist.new_group(members)
    if world.rank not in members:
        with pytest.raises(GroupError) as error:
            EagerStep(sgd, group)
        assert error.value.got == f"rank {world.rank}"
        return
    x = cc.tensor("x", cc.f32, (3,), cc.Sliced(0), cc.Group("sub", len(members)))
    program = cc.program("sub", inputs=[x], outputs=[cc.all_gather(x)])
    inner = World(members.index(world.rank), len(members), group)
    check(inner, program, random_arguments(program, inner.ranks, {}, 9))


CASES = {
    name.removeprefix("case_"): case
    for name, case in list(globals().items())
    if name.startswith("case_")
}


def run_cases(folder: str) -> dict[str, str]:
    """Run every case on this rank; say what is wrong with each."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    place = launch()
    assert place is not None
    world = World(place.rank, place.size)
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(str(Path(folder) / "store"), world.ranks),
        rank=world.rank,
        world_size=world.ranks,
        timeout=timedelta(seconds=30),
    )
    said: dict[str, str] = {}
    for name, case in CASES.items():
        try:
            case(world)
        except (Exception, pytest.fail.Exception):
            said[name] = traceback.format_exc()
    dist.destroy_process_group()
    return said

"""Plans compute what programs mean: many programs, ranks, sizes, cuts, seeds."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.ir import DTYPES
from coconet.lower import lower
from coconet.plan import Tile, View
from coconet.workloads.optimizers import adam, sgd

DP = cc.Group("dp")
N, B, S, H = cc.dims("N B S H")
RANKS = (1, 2, 3, 4)


def tensor(name, layout, shape=(N,), dtype=cc.f32):
    return cc.tensor(name, dtype, shape, layout, DP)


OPTIMIZERS = [
    pytest.param(schedule.result, id=f"{program.name}-{name}")
    for program in (sgd, adam)
    for name, schedule in cc.library(program).items()
]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("program", OPTIMIZERS)
def test_optimizers(program, ranks, plan_difference):
    for seed, n in enumerate((0, 1, ranks - 1, 63, 64, 65, 130, 1000)):
        difference = plan_difference(program, ranks, {"N": n}, seed=seed)
        assert difference is None, f"N={n}: {difference}"


CUTS = [cc.FLAT, 0, 1, 2, cc.ROWS(1), cc.ROWS(2), cc.ROWS(3)]


def layer(cut, bias_shape, scale_shape):
    """Reduce, add a bias and scale, all broadcast; split by `cut`, fuse, gather."""
    x = tensor("x", cc.Local(), (B, S, H))
    bias = tensor("b", cc.Replicated(), bias_shape)
    scale = tensor("r", cc.Replicated(), scale_shape)
    total = cc.all_reduce(x)
    shifted = total + bias
    y = cc.where(shifted > 0.0, shifted * scale, 0.0)
    program = cc.program("layer", inputs=[x, bias, scale], outputs=[y])
    draft = program.schedule()
    part, whole = draft.split(total, by=cut)
    region, tail = draft.reorder(whole, [y])
    draft.fuse(part, region, tail)
    return program, draft.program


@pytest.mark.parametrize("cut", CUTS, ids=repr)
@pytest.mark.parametrize(
    ("bias", "scale"),
    [
        ((H,), (B, 1, H)),
        ((B, S, H), (S, 1)),
        ((1, S, 1), (B, 1, 1)),
        ((), (1, 1, H)),
    ],
    ids=str,
)
def test_broadcasts_in_every_cut(
    cut, bias, scale, schedule_difference, plan_difference
):
    program, scheduled = layer(cut, bias, scale)
    shapes = [(2, 3, 4), (5, 1, 3), (1, 7, 1), (3, 0, 2), (4, 5, 13)]
    for seed, (b, s, h) in enumerate(shapes):
        sizes = {"B": b, "S": s, "H": h}
        for ranks in RANKS:
            for program_ in (program, scheduled):
                found = plan_difference(program_, ranks, sizes, seed=seed)
                assert found is None, f"{ranks} {sizes}: {found}"
            found = schedule_difference(program, scheduled, ranks, sizes, seed=seed)
            assert found is None, f"{ranks} {sizes}: {found}"


def test_a_broadcast_operand_is_loaded_by_row():
    program, _ = layer(cc.FLAT, (H,), (B, 1, H))
    maps = [
        step.index
        for tile in lower(program, 2).body
        if isinstance(tile, Tile)
        for step in tile.body
        if isinstance(getattr(step, "index", None), View)
    ]
    assert [(m.axes, m.shape) for m in maps] == [
        ((None, None, 0), (H,)),
        ((0, None, 2), (B, 1, H)),
    ]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(
    ("full", "row", "cut", "row_cut"),
    [
        ((B, H), (H,), 1, 0),
        ((B, S, H), (S, H), 1, 0),
        ((B, S, H), (S, 1), 1, 0),
        ((B, S, H), (B, 1, H), 2, 2),
        ((B, S, H), (B, 1, 1), 0, 0),
        ((B, S, H), (H,), 2, 0),
    ],
    ids=str,
)
def test_a_sliced_operand_is_broadcast(full, row, cut, row_cut, ranks, plan_difference):
    x = tensor("x", cc.Sliced(cut), full)
    y = tensor("y", cc.Sliced(row_cut), row)
    z = tensor("z", cc.Replicated(), full)
    out = (x + y) * z - y
    other = z * y
    inputs = [x, y, z]
    program = cc.program("k", inputs=inputs, outputs=[out, other, cc.all_gather(out)])
    for seed, (b, s, h) in enumerate([(2, 3, 4), (5, 7, 3), (1, 1, 1), (3, 2, 9)]):
        sizes = {"B": b, "S": s, "H": h}
        assert plan_difference(program, ranks, sizes, seed=seed) is None


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_through_a_kernel(dtype, plan_difference):
    x, m = (
        tensor("x", cc.Local(), dtype=dtype),
        tensor("m", cc.Replicated(), dtype=dtype),
    )
    if dtype is cc.bool_:
        out = cc.logical_and(m, cc.logical_not(m))
        moved = cc.all_gather(cc.slice_(out))
        program = cc.program("k", inputs=[m], outputs=[out, moved])
    else:
        s = cc.all_reduce(x)
        out = cc.where(s > m, s, cc.minimum(m * 2, s))
        m1 = cc.update(m, out)
        program = cc.program("k", inputs=[x, m], outputs=[m1, cc.relu(m1) + m])
    for ranks in RANKS:
        for n in (0, 1, 65, 200):
            assert plan_difference(program, ranks, {"N": n}) is None


def test_mixed_dtypes_in_one_kernel(schedule_difference, plan_difference):
    g = tensor("g", cc.Local(), dtype=cc.bf16)
    p = tensor("p", cc.Replicated(), dtype=cc.bf16)
    m = tensor("m", cc.Replicated())
    lr = cc.scalar("lr")
    avg = cc.all_reduce(g, "mean")
    wide = cc.cast(avg, cc.f32)
    m1 = cc.update(m, 0.9 * m + wide)
    p1 = cc.update(p, cc.cast(cc.cast(p, cc.f32) - lr * m1, cc.bf16))
    program = cc.program("k", inputs=[g, p, m], outputs=[m1, p1])
    draft = program.schedule()
    part, whole = draft.split(avg)
    region, tail = draft.reorder(whole, [m1, p1])
    draft.slice_state(m)
    draft.dead("m1_ag")
    draft.fuse(part, region, tail)
    for ranks in RANKS:
        for n in (0, 1, 64, 200):
            after = draft.program
            assert schedule_difference(program, after, ranks, {"N": n}) is None
            assert plan_difference(after, ranks, {"N": n}) is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_outputs_of_every_layout(plan_difference):
    x, r = tensor("x", cc.Local(), (B, H)), tensor("r", cc.Replicated(), (B, H))
    outputs = [
        x * r,
        cc.all_reduce(x, "max"),
        cc.reduce_scatter(x, "min", 1),
        cc.reduce_scatter(x, "prod", cc.ROWS(1)),
        cc.slice_(r, 0) + 1.0,
        cc.all_gather(cc.slice_(r, 1)),
    ]
    program = cc.program("k", inputs=[x, r], outputs=outputs)
    for ranks in RANKS:
        for sizes in ({"B": 5, "H": 3}, {"B": 0, "H": 2}, {"B": 1, "H": 1}):
            assert plan_difference(program, ranks, sizes) is None


def test_concrete_and_zero_dim_shapes(plan_difference):
    x, y = tensor("x", cc.Local(), ()), tensor("y", cc.Replicated(), (3, 1))
    out = cc.all_reduce(x, "mean") * y
    z = cc.all_gather(cc.slice_(cc.all_reduce(x)))
    program = cc.program("k", inputs=[x, y], outputs=[out, z])
    for ranks in RANKS:
        assert plan_difference(program, ranks, {}) is None

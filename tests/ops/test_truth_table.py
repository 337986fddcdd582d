"""The whole table of which layouts meet, op by op: what comes out, what is refused.

R Replicated, L Local, 0 and 1 Sliced by that dim, F by FLAT, W by ROWS(1), a and b
Rooted at 0 and 1; a dot is refused.
"""

from __future__ import annotations

import itertools
import traceback

import pytest

import coconet as cc
from coconet.errors import (
    DtypeError,
    GroupError,
    LayoutError,
    ProgramError,
    ShapeError,
)
from coconet.ops import ELEMENTWISE, Elementwise

DP, TP = cc.Group("dp"), cc.Group("tp")
N, M = cc.dims("N M")
LAYOUTS = {
    "R": cc.Replicated(),
    "L": cc.Local(),
    "0": cc.Sliced(0),
    "1": cc.Sliced(1),
    "F": cc.Sliced(cc.FLAT),
    "W": cc.Sliced(cc.ROWS(1)),
    "a": cc.Rooted(0),
    "b": cc.Rooted(1),
}
CUTS = (0, 1, cc.FLAT, cc.ROWS(1), cc.ROWS(2))

# the first operand [N, M] down, the second across, as the shape in the corner says
SAME = """
    NM  R L 0 1 F W a b
    R   R L 0 1 F W a b
    L   L L . . . . . .
    0   0 . 0 . . . . .
    1   1 . . 1 . . . .
    F   F . . . F . . .
    W   W . . . . W . .
    a   a . . . . . a .
    b   b . . . . . . b
"""
ROW = """
    M   R L 0 F W a b
    R   R L 1 . . a b
    L   L L . . . . .
    0   0 . . . . . .
    1   1 . 1 . . . .
    F   F . . . . . .
    W   W . . . . . .
    a   a . . . . a .
    b   b . . . . . b
"""
COLUMN = """
    N1  R L 0 1 F W a b
    R   R L 0 . . W a b
    L   L L . . . . . .
    0   0 . 0 . . . . .
    1   1 . . . . . . .
    F   F . . . . . . .
    W   W . . . . W . .
    a   a . . . . . a .
    b   b . . . . . . b
"""
SHAPES = {"NM": (N, M), "M": (M,), "N1": (N, 1)}


def cells(table):
    """Yield (first layout, second layout, second shape, result) of each cell."""
    (corner, *across), *rows = (line.split() for line in table.strip().splitlines())
    for down, *results in rows:
        for column, result in zip(across, results, strict=True):
            yield down, column, corner, result


CELLS = [cell for table in (SAME, ROW, COLUMN) for cell in cells(table)]
ACCEPTED = [cell for cell in CELLS if cell[3] != "."]
REFUSED = [cell for cell in CELLS if cell[3] == "."]


def tensor(name, layout, shape=(N, M), dtype=cc.f32, group=DP):
    return cc.tensor(name, dtype, shape, layout, group)


def operands(down, across, corner, dtype=cc.f32):
    first = tensor("x", LAYOUTS[down], dtype=dtype)
    return first, tensor("y", LAYOUTS[across], SHAPES[corner], dtype)


def refused(error, act):
    """Check that an act is refused with a whole message; return the error."""
    with pytest.raises(error) as caught:
        act()
    assert caught.type is error
    problem = caught.value
    assert str(problem.got)
    assert str(problem.need)
    assert problem.fix
    frames = traceback.extract_tb(problem.__traceback__)
    line = [frame.lineno for frame in frames if frame.filename == __file__][-1]
    assert problem.at == f"test_truth_table.py:{line}"
    return problem


def test_the_tables_are_whole():
    assert len(CELLS) == 8 * 8 + 8 * 7 + 8 * 8
    for down, across, corner, result in cells(SAME):
        assert (across, down, corner, result) in CELLS


@pytest.mark.parametrize(("down", "across", "corner", "result"), ACCEPTED)
def test_elementwise_accepts(down, across, corner, result):
    x, y = operands(down, across, corner)
    for out in (x + y, y + x, x < y, cc.maximum(y, x)):
        assert out.type.layout == LAYOUTS[result]
        assert out.type.shape == (N, M)
        assert out.type.group == DP
    assert (x + y).type.dtype is cc.f32
    assert (x < y).type.dtype is cc.bool_


@pytest.mark.parametrize(("down", "across", "corner", "result"), REFUSED)
def test_elementwise_refuses(down, across, corner, result):
    x, y = operands(down, across, corner)
    for act in (lambda: x + y, lambda: y + x, lambda: x < y, lambda: cc.minimum(x, y)):
        refused(LayoutError, act)


@pytest.mark.parametrize(("down", "across", "corner", "result"), CELLS)
def test_where_follows_the_same_table(down, across, corner, result):
    x, y = operands(down, across, corner)
    same, other = tensor("c", LAYOUTS[down], dtype=cc.bool_), y < 1.0
    acts = (
        lambda: cc.where(same, x, y),
        lambda: cc.where(same, y, 0.0),
        lambda: cc.where(other, x, 1.0),
        lambda: cc.where(other, 0.0, x),
    )
    for act in acts:
        if result == ".":
            refused(LayoutError, act)
        else:
            assert act().type.layout == LAYOUTS[result]
            assert act().type.dtype is cc.f32


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_scalars_and_casts_keep_the_layout(layout):
    x, s = tensor("x", layout), cc.scalar("s")
    for out in (x + s, 2 * x, -x, x > 0, cc.where(x > s, s, x), cc.cast(x, cc.f64)):
        assert out.type.layout == layout
        assert out.type.shape == (N, M)


@pytest.mark.parametrize("cut", CUTS, ids=repr)
@pytest.mark.parametrize("key", LAYOUTS)
def test_slice_takes_what_every_rank_has(key, cut):
    x = tensor("x", LAYOUTS[key])
    if key == "R":
        assert cc.slice_(x, cut).type == x.type.with_layout(cc.Sliced(cut))
    else:
        refused(LayoutError, lambda: cc.slice_(x, cut))


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("key", LAYOUTS)
def test_reductions_over_ranks_take_local_values(key, op):
    x = tensor("x", LAYOUTS[key])
    if key == "L":
        assert cc.all_reduce(x, op).type == x.type.with_layout(cc.Replicated())
        for cut in CUTS:
            out = cc.reduce_scatter(x, op, cut)
            assert out.type == x.type.with_layout(cc.Sliced(cut))
    else:
        refused(LayoutError, lambda: cc.all_reduce(x, op))
        for cut in CUTS:
            refused(LayoutError, lambda cut=cut: cc.reduce_scatter(x, op, cut))


def test_an_all_reduce_of_a_replicated_value_says_so():
    x = tensor("x", cc.Replicated())
    assert "already Replicated" in refused(LayoutError, lambda: cc.all_reduce(x)).what


@pytest.mark.parametrize("key", LAYOUTS)
def test_all_gather_takes_pieces(key):
    x = tensor("x", LAYOUTS[key])
    if key in "01FW":
        assert cc.all_gather(x).type == x.type.with_layout(cc.Replicated())
    else:
        refused(LayoutError, lambda: cc.all_gather(x))


@pytest.mark.parametrize(
    ("down", "across"), list(itertools.product(LAYOUTS, LAYOUTS)), ids=str
)
def test_update_takes_the_same_layout(down, across):
    t, e = operands(down, across, "NM")
    if down == across:
        assert cc.update(t, e).type == t.type
    else:
        refused(LayoutError, lambda: cc.update(t, e))


def test_update_keeps_shape_dtype_and_kind():
    t = tensor("t", cc.Replicated())
    row = tensor("e", cc.Replicated(), (M,))
    refused(ShapeError, lambda: cc.update(t, row))
    refused(DtypeError, lambda: cc.update(t, cc.cast(t, cc.f64)))
    refused(LayoutError, lambda: cc.update(t, 0.0))
    refused(LayoutError, lambda: cc.update(cc.scalar("s"), t))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((N, M), (M, N)),
        ((N,), (M,)),
        ((N,), (2,)),
        ((3,), (2,)),
        ((N, M), (N,)),
        ((2, N), (3, N)),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit(first, second):
    x = tensor("x", cc.Replicated(), first)
    y = tensor("y", cc.Replicated(), second)
    refused(ShapeError, lambda: x + y)
    refused(ShapeError, lambda: cc.where(x > 0, y, 0.0))


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ((N, 1), (1, M), (N, M)),
        ((), (N,), (N,)),
        ((1,), (N, M), (N, M)),
        ((N, 1, M), (3, 1), (N, 3, M)),
        ((0,), (1,), (0,)),
        ((), (), ()),
    ],
    ids=str,
)
def test_shapes_broadcast_from_the_right(first, second, result):
    x = tensor("x", cc.Replicated(), first)
    y = tensor("y", cc.Replicated(), second)
    assert (x + y).type.shape == result
    assert (y + x).type.shape == result


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", [cc.f16, cc.i8, cc.u32, cc.bool_], ids=str)
def test_dtypes_that_an_op_is_defined_for(name, dtype):
    meaning = ELEMENTWISE[name]
    x = [tensor(f"x{i}", cc.Local(), dtype=dtype) for i in range(meaning.arity)]
    if dtype.kind in meaning.kinds:
        out = Elementwise(name).of(*x)
        assert out.type.dtype is (cc.bool_ if meaning.result == "bool" else dtype)
    else:
        refused(DtypeError, lambda: Elementwise(name).of(*x))


def test_dtypes_do_not_mix():
    x, y = tensor("x", cc.Local()), tensor("y", cc.Local(), dtype=cc.f16)
    i, c = tensor("i", cc.Local(), dtype=cc.i32), x > 0.0
    s, k = cc.scalar("s"), cc.scalar("k", cc.i64)
    refused(DtypeError, lambda: x + y)
    refused(DtypeError, lambda: cc.where(c, x, y))
    refused(DtypeError, lambda: cc.where(x, x, x))
    refused(DtypeError, lambda: cc.where(c, s, 1.0))
    refused(DtypeError, lambda: i + 0.5)
    refused(DtypeError, lambda: i * s)
    refused(DtypeError, lambda: cc.where(i > 0, i, 0.5))
    refused(DtypeError, lambda: i / 2)
    refused(DtypeError, lambda: k / 2)
    refused(DtypeError, lambda: s < 1.0)
    refused(DtypeError, lambda: i**2)
    assert (x**2).type == x.type
    assert (i * k).type.dtype is cc.i32
    assert (x * k).type.dtype is cc.f32


def test_casts_that_have_no_meaning():
    x = tensor("x", cc.Local())
    i = tensor("i", cc.Local(), dtype=cc.i32)
    refused(DtypeError, lambda: cc.cast(x, cc.i32))
    refused(DtypeError, lambda: cc.cast(x, cc.bool_))
    refused(DtypeError, lambda: cc.cast(i, cc.bool_))
    refused(DtypeError, lambda: cc.cast(cc.scalar("s"), cc.f32))
    assert cc.cast(x > 0, cc.i32).type.dtype is cc.i32


@pytest.mark.parametrize(
    ("dtype", "op"),
    [(cc.bool_, "sum"), (cc.bool_, "max"), (cc.i32, "mean"), (cc.u8, "mean")],
    ids=str,
)
def test_reductions_that_have_no_meaning(dtype, op):
    x = tensor("x", cc.Local(), dtype=dtype)
    refused(DtypeError, lambda: cc.all_reduce(x, op))
    refused(DtypeError, lambda: cc.reduce_scatter(x, op))
    with pytest.raises(ValueError, match="sum, mean, prod, max, min"):
        cc.all_reduce(x, "norm")


def test_cuts_that_are_not_there():
    x, y = tensor("x", cc.Replicated(), (N,)), tensor("y", cc.Local(), ())
    refused(ShapeError, lambda: cc.slice_(x, 1))
    refused(ShapeError, lambda: cc.slice_(x, cc.ROWS(2)))
    refused(ShapeError, lambda: cc.reduce_scatter(y, "sum", 0))
    refused(ShapeError, lambda: tensor("z", cc.Sliced(1), (N,)))
    assert cc.reduce_scatter(y).type.layout == cc.Sliced(cc.FLAT)


def test_groups_do_not_meet():
    x, y = tensor("x", cc.Local()), tensor("y", cc.Local(), group=TP)
    for act in (
        lambda: x + y,
        lambda: cc.where(x > 0, y, y),
        lambda: cc.update(x, y),
        lambda: cc.clamp(x, 0, y),
    ):
        refused(GroupError, act)
    assert issubclass(GroupError, ProgramError)

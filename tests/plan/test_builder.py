"""The builder refuses malformed plans, and makes equal things once."""

from __future__ import annotations

import pytest

from coconet.errors import InternalError, UnsupportedError
from coconet.ir import FLAT, Dim, bool_, f32, f64, i32
from coconet.plan import (
    EVERY,
    OWN,
    Barrier,
    Index,
    Load,
    PlanBuilder,
    Role,
    Space,
    Store,
    Tile,
)

N = Dim("N")


@pytest.fixture
def plan():
    return PlanBuilder("k", "dp", 2)


@pytest.fixture
def x(plan):
    return plan.buffer("x", f32, (N,), None, Role.ARGUMENT)


def finish(plan):
    return plan.finish(updated=frozenset(), scalars=(), dims=(N,))


def test_buffers_have_names_of_their_own(plan, x):
    with pytest.raises(InternalError, match="twice"):
        plan.buffer("x", f32, (N,), None, Role.SCRATCH)
    assert finish(plan).buffer("x") == x


def test_scalars_need_a_meaning_on_numbers(plan):
    zero = plan.literal(0.0)
    with pytest.raises(UnsupportedError, match="lt of scalars"):
        plan.scalar("lt", (zero, zero), is_int=False)


def test_loads_are_from_one_rank(plan, x):
    tile = plan.tile("t", (N,), None)
    with pytest.raises(InternalError, match="from one rank"):
        tile.load(x, EVERY, Index.GLOBAL)


def test_a_piece_is_cut_as_its_tile(plan):
    piece = plan.buffer("m", f32, (N,), FLAT, Role.ARGUMENT)
    with pytest.raises(InternalError, match="not cut as tile"):
        plan.tile("t", (N,), None).load(piece, OWN, Index.PIECE)
    with pytest.raises(InternalError, match="not cut as tile"):
        plan.tile("t", (N,), 0).load(piece, OWN, Index.PIECE)
    assert plan.tile("t", (N,), FLAT).load(piece, OWN, Index.PIECE).dtype is f32


@pytest.mark.parametrize(
    ("primitive", "count"), [("add", 1), ("sqrt", 2), ("select", 2)]
)
def test_primitives_count_their_arguments(plan, x, primitive, count):
    tile = plan.tile("t", (N,), None)
    register = tile.load(x, OWN, Index.GLOBAL)
    with pytest.raises(InternalError, match="arguments"):
        tile.apply(primitive, *[register] * count)


def test_equal_things_are_made_once(plan, x):
    tile = plan.tile("t", (N,), None)
    first = tile.load(x, OWN, Index.GLOBAL)
    assert tile.load(x, OWN, Index.GLOBAL) == first
    assert tile.load(x, 1, Index.GLOBAL) != first
    assert tile.apply("add", first, first) == tile.apply("add", first, first)
    assert tile.apply("cast", first, dtype=f64) != tile.apply("cast", first, dtype=i32)
    assert tile.literal(2, f32) == tile.literal(2, f32)


def test_zeros_of_both_signs_and_both_kinds_are_different_literals(plan):
    numbers = [plan.literal(value) for value in (0.0, -0.0, 0, 1.0, 1, 0.0, -0.0)]
    assert numbers == [0, 1, 2, 3, 4, 0, 1]
    values = [repr(expr.value) for expr in finish(plan).consts]
    assert values == ["0.0", "-0.0", "0", "1.0", "1"]


def test_results_know_their_dtype(plan, x):
    tile = plan.tile("t", (N,), None)
    register = tile.load(x, OWN, Index.GLOBAL)
    below = tile.apply("lt", register, tile.literal(0.0, f32))
    assert below.dtype is bool_
    assert tile.apply("select", below, register, register).dtype is f32
    assert tile.apply("cast", register, dtype=f64).dtype is f64


def test_stores_come_last(plan, x):
    tile = plan.tile("t", (N,), None)
    register = tile.load(x, OWN, Index.GLOBAL)
    tile.store(x, OWN, Index.GLOBAL, register)
    other = tile.load(x, 1, Index.GLOBAL)
    tile.store(x, OWN, Index.GLOBAL, other)
    kinds = [type(step) for step in tile.build().body]
    assert kinds == [Load, Load, Store, Store]


def test_what_peers_address_is_symmetric(plan, x):
    y = plan.buffer("y", f32, (N,), None, Role.RESULT)
    z = plan.buffer("z", f32, (N,), None, Role.SCRATCH)
    tile = plan.tile("t", (N,), None)
    register = tile.load(x, 1, Index.GLOBAL)
    tile.store(y, EVERY, Index.GLOBAL, register)
    tile.store(z, OWN, Index.GLOBAL, register)
    assert finish(plan).buffer("x").space is Space.PRIVATE
    tile.close()
    spaces = {buffer.name: buffer.space for buffer in finish(plan).buffers}
    assert spaces == {"x": Space.SYMMETRIC, "y": Space.SYMMETRIC, "z": Space.PRIVATE}


def test_a_plan_orders_buffers_by_role_and_names_its_waits(plan, x):
    plan.buffer("scratch", f32, (N,), None, Role.SCRATCH)
    plan.buffer("out", f32, (N,), None, Role.RESULT)
    plan.buffer("y", f32, (N,), None, Role.ARGUMENT)
    plan.arrive()
    plan.tile("t", (N,), None).close()
    plan.fence_stores()
    plan.barrier("the end")
    made = finish(plan)
    assert [b.name for b in made.buffers] == ["x", "y", "out", "scratch"]
    assert [b.name for b in made.with_role(Role.RESULT)] == ["out"]
    assert made.buffer("out").role is Role.RESULT
    assert made.waits == ("arrival of program 'k'", "the end")
    assert made.body[-1] == Barrier(1)
    assert isinstance(made.body[1], Tile)

"""Plans: golden texts, refusals, old and new values, barriers where they must be."""

from __future__ import annotations

import re

import pytest

import coconet as cc
from coconet.errors import GroupError, UnsupportedError
from coconet.lower import lower
from coconet.lower.hazards import NONE, Accesses, needs_barrier
from coconet.plan import Arrive, Barrier, FenceStores, Role, Tile
from coconet.workloads.optimizers import adam, sgd

DP = cc.Group("dp")
(N,) = cc.dims("N")
SIZES = [{"N": n} for n in (0, 1, 65, 130)]


def tensor(name, layout=None):
    return cc.tensor(name, cc.f32, (N,), layout or cc.Replicated(), DP)


def fused(program, state=()):
    outs = [update.name for update in program.effects]
    draft = program.schedule()
    part, whole = draft.split("avg")
    region, tail = draft.reorder(whole, outs)
    draft.slice_state(*state)
    draft.dead(*(f"{name}1_ag" for name in state))
    draft.fuse(part, region, tail)
    return draft.program


def kinds(plan):
    return [type(instruction) for instruction in plan.body]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("plan_sgd", lambda: sgd),
        ("plan_sgd_fused", lambda: fused(sgd)),
        ("plan_adam", lambda: adam),
        ("plan_adam_fused", lambda: fused(adam, ("m", "v"))),
    ],
)
def test_plan_text(name, make, golden):
    # the user's lines are left out: they move
    golden(name, re.sub(r" \(\w+\.py:\d+\)", "", str(lower(make(), 2))))


def test_the_fused_plan_is_one_tile_between_arrival_and_barrier():
    plan = lower(fused(adam, ("m", "v")), 2)
    assert kinds(plan) == [Arrive, Tile, FenceStores, Barrier]
    assert plan.with_role(Role.SCRATCH) == ()
    assert plan.updated == {"p", "m", "v"}
    assert plan.scalars == ("lr", "beta1", "beta2", "eps", "t")
    assert plan.scalar_kinds == ("f64", "f64", "f64", "f64", "i64")


def test_computation_alone_needs_no_barrier():
    x = tensor("x")
    y = cc.relu(x) * 2.0
    assert Barrier not in kinds(lower(cc.program("k", inputs=[x], outputs=[y]), 4))


def test_one_rank_stores_to_nobody():
    plan = lower(fused(adam), 1)
    assert kinds(plan) == [Arrive, Tile]


def test_groups_must_fit():
    x = cc.tensor("x", cc.f32, (N,), cc.Local(), cc.Group("tp", 4))
    program = cc.program("k", inputs=[x], outputs=[cc.all_reduce(x)])
    assert lower(program, 4).ranks == 4
    with pytest.raises(GroupError) as caught:
        lower(program, 2)
    assert (caught.value.got, caught.value.need) == ("2 ranks", "4 ranks")
    y = tensor("y")
    both = cc.program("k", inputs=[x, y], outputs=[cc.all_reduce(x), y + 1.0])
    with pytest.raises(GroupError, match="2 groups"):
        lower(both, 4)


@pytest.fixture
def always_equal(plan_difference):
    def check(program):
        for ranks in (1, 2, 3):
            for seed, sizes in enumerate(SIZES):
                difference = plan_difference(program, ranks, sizes, seed=seed)
                assert difference is None, f"{difference}\n{lower(program, ranks)}"

    return check


def test_old_values_are_read_before_the_update(always_equal):
    p, g = tensor("p"), tensor("g")
    p1 = cc.update(p, p - g)
    q = p * 3.0
    program = cc.program("k", inputs=[p, g], outputs=[p1, q])
    always_equal(program)
    assert all(
        b.role is not Role.SCRATCH or b.name != "p.old"
        for b in lower(program, 2).buffers
    )


def test_a_value_of_old_and_new_reads_a_copy(always_equal):
    p, g = tensor("p"), tensor("g")
    p1 = cc.update(p, p - g)
    q = p1 * p
    program = cc.program("k", inputs=[p, g], outputs=[p1, q])
    always_equal(program)
    assert lower(program, 2).buffer("p.old").role is Role.SCRATCH


def test_a_copy_does_not_take_the_users_name(always_equal):
    p, g = tensor("p"), tensor("g")
    p1 = cc.update(p, p - g)
    p_old = p1 * p
    r = p_old + 1.0
    always_equal(cc.program("k", inputs=[p, g], outputs=[p1, r]))


def test_two_updates_that_wait_for_each_other(always_equal):
    p, m, g = tensor("p"), tensor("m"), tensor("g")
    p1 = cc.update(p, p - g)
    m1 = cc.update(m, m - g)
    a = m1 * p
    b = p1 * m
    always_equal(cc.program("k", inputs=[p, m, g], outputs=[p1, m1, a, b]))


def test_a_copy_is_what_peers_read_too(always_equal):
    g = tensor("g", cc.Local())
    g1 = cc.update(g, g * 2.0)
    avg = cc.all_reduce(g)
    z = avg + g1
    y = cc.all_reduce(z)
    draft = cc.program("k", inputs=[g], outputs=[g1, y]).schedule()
    draft.fuse(avg, z)
    always_equal(draft.program)


def test_peers_reads_come_before_the_update(always_equal):
    g, m = tensor("g", cc.Local()), tensor("m")
    g1 = cc.update(g, g * 2.0)
    s = cc.all_reduce(g) * m
    program = cc.program("k", inputs=[g, m], outputs=[g1, s])
    always_equal(program)
    plan = lower(program, 2)
    written = [i for i, step in enumerate(plan.body) if _writes(step, "g")]
    read = [i for i, step in enumerate(plan.body) if "g" in _peer_reads(step)]
    assert max(read) < min(written)
    assert Barrier in kinds(plan)[max(read) : min(written)]


def _peer_reads(step):
    return Accesses.of(step).peer_reads if isinstance(step, Tile) else ()


def _writes(step, name):
    return isinstance(step, Tile) and name in Accesses.of(step).own_writes


def test_an_updated_value_may_be_reduced(always_equal):
    g, m = tensor("g", cc.Local()), tensor("m")
    g1 = cc.update(g, g * m)
    always_equal(
        cc.program(
            "k", inputs=[g, m], outputs=[g1, cc.all_reduce(g1), cc.all_reduce(g)]
        )
    )


def accesses(own_reads="", own_writes="", peer_reads="", peer_writes=""):
    # what a rank does to its peers it does to itself
    return Accesses(
        frozenset(own_reads + peer_reads),
        frozenset(own_writes + peer_writes),
        frozenset(peer_reads),
        frozenset(peer_writes),
    )


KINDS = ("own_reads", "own_writes", "peer_reads", "peer_writes")
CONFLICTS = {
    ("own_reads", "peer_writes"),
    ("own_writes", "peer_reads"),
    ("own_writes", "peer_writes"),
    ("peer_reads", "own_writes"),
    ("peer_reads", "peer_writes"),
    ("peer_writes", "own_reads"),
    ("peer_writes", "own_writes"),
    ("peer_writes", "peer_reads"),
    ("peer_writes", "peer_writes"),
}


@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("after", KINDS)
def test_a_barrier_is_needed_between_ranks_if_one_writes(before, after):
    first, second = accesses(**{before: "x"}), accesses(**{after: "x"})
    assert needs_barrier(first, second) == ((before, after) in CONFLICTS)
    assert not needs_barrier(first, accesses(**{after: "y"}))
    assert not needs_barrier(NONE, second)
    assert first | NONE == first
    assert first.touches_peers == before.startswith("peer")


def test_a_long_scalar_expression_is_no_deep_recursion():
    x, s = tensor("x"), cc.scalar("s")
    factor = s
    for _ in range(1000):
        factor = factor + s
    program = cc.program("k", inputs=[x, s], outputs=[x * factor])
    assert len(lower(program, 1).consts) == 1001


def test_rooted_values_are_refused():
    dp = cc.Group("dp")
    x = cc.tensor("x", cc.f32, (4,), cc.Rooted(7), dp)
    program = cc.program("rooted", inputs=[x], outputs=[x * 2])
    with pytest.raises(UnsupportedError, match="one rank") as caught:
        lower(program, 2)
    assert "test_lower.py" in caught.value.at


def test_temporaries_share_memory_when_their_lives_allow():
    plan = lower(adam, 2)
    scratch = [b.name for b in plan.with_role(Role.SCRATCH)]
    # avg is written by peers; of the 12 other values at most three live at once
    assert scratch == ["temp.0", "avg", "temp.1", "temp.2"]

"""The proof: right plans pass, every mistake is found and named."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from plan_mutants import FOUND_BY, PROGRAMS, PROOF, SIZES, bound, mutants

import coconet as cc
from coconet.errors import InternalError
from coconet.ir import Domain
from coconet.lower import lower
from coconet.plan import (
    EVERY,
    OWN,
    Arrive,
    Barrier,
    Buffer,
    FenceStores,
    Index,
    Load,
    Plan,
    Register,
    Role,
    Space,
    Store,
    Tile,
    View,
)
from coconet.plan.verify import verify_plan
from coconet.plan.verify.accesses import Accesses
from coconet.plan.verify.elements import boxes, elements_text, repeat, span
from coconet.plan.verify.instances import bind, instances

R = Register(0, cc.f32)


def buffer(name, shape=(200,), cut=None, space=Space.SYMMETRIC, role=Role.ARGUMENT):
    return Buffer(name, cc.f32, shape, cut, space, role)


def load(name, peer=OWN, index=Index.GLOBAL):
    return Load(R, name, peer, index)


def store(name, peer=OWN, index=Index.GLOBAL):
    return Store(name, peer, index, R)


def tile(*body, shape=(200,), cut=cc.FLAT):
    return Tile("t", shape, cut, body)


def plan(*body, buffers, updated=(), ranks=2):
    return Plan(
        name="k",
        group="dp",
        ranks=ranks,
        buffers=tuple(buffers),
        updated=frozenset(updated),
        scalars=(),
        scalar_kinds=(),
        consts=(),
        dims=(),
        body=(Arrive(), *body),
        waits=("arrival", "barrier", "end"),
    )


def refused(wrong, match):
    """Check that a plan is refused with a whole message; return the error."""
    with pytest.raises(InternalError, match=match) as caught:
        verify_plan(wrong)
    assert str(caught.value.got)
    assert str(caught.value.need)
    return caught.value


def is_refused(wrong):
    try:
        verify_plan(wrong)
    except InternalError:
        return True
    return False


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_plans_are_right(program, ranks):
    verify_plan(lower(program, ranks))
    verify_plan(bound(lower(program, ranks), SIZES))


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_every_mutant_is_found(program, ranks):
    right = bound(lower(program, ranks), SIZES)
    made = list(mutants(right))
    assert len(made) > 10
    for mutant in made:
        finders = FOUND_BY[mutant.kind]
        if PROOF in finders or not finders:
            found = is_refused(mutant.plan)
            assert found == bool(finders), f"{mutant.kind} at {mutant.place}\n{right}"


SPREAD = tile(load("g"), store("p", EVERY))
"""Each rank writes its piece of p on every rank."""
GIVEN = [buffer("g", space=Space.PRIVATE), buffer("p")]


def test_a_race_names_both_steps():
    right = plan(SPREAD, FenceStores(), Barrier(1), buffers=GIVEN, updated=["p"])
    verify_plan(right)
    error = refused(replace(right, body=right.body[:3]), "in any order")
    assert error.what == (
        "plan 'k' on 2 ranks: two steps touch p[0] in any order: "
        "72 elements from 128 to 199"
    )
    assert error.got == (
        "rank 1 stores in instruction 1 (t) of call 1; "
        "rank 0 loads for its caller after call 1"
    )


@pytest.mark.parametrize(
    "body",
    [
        (SPREAD, Barrier(1)),
        (SPREAD, Barrier(1), FenceStores()),
        (FenceStores(), SPREAD, Barrier(1)),
    ],
)
def test_a_store_to_a_peer_needs_a_fence_before_a_wait(body):
    refused(plan(*body, buffers=GIVEN, updated=["p"]), "in any order")


def test_a_rank_may_not_read_what_it_stored_to_a_peer_before_its_fence():
    given = [*GIVEN, buffer("q", role=Role.RESULT)]
    reading = tile(load("p", 1), store("q"))
    rest = Barrier(1), tile(load("g"), store("q"), cut=None)
    fenced = plan(
        SPREAD, FenceStores(), Barrier(2), reading, *rest, buffers=given, updated=["p"]
    )
    verify_plan(fenced)
    early = replace(fenced, body=(Arrive(), SPREAD, reading, *fenced.body[2:]))
    error = refused(early, r"touch p\[1\] in any order: 128 elements from 0")
    assert error.got == (
        "rank 0 stores in instruction 1 (t) of call 1; "
        "rank 0 loads in instruction 2 (t) of call 1"
    )


def test_no_peer_may_touch_scratch_when_a_call_has_returned():
    given = [
        buffer("g", space=Space.PRIVATE),
        buffer("s", role=Role.SCRATCH),
        buffer("q", role=Role.RESULT, space=Space.PRIVATE),
    ]
    body = [
        tile(load("g"), store("s"), cut=None),
        Barrier(1),
        tile(load("s", 0), store("q"), cut=None),
        Barrier(2),
    ]
    verify_plan(plan(*body, buffers=given))
    error = refused(plan(*body[:-1], buffers=given), r"touch s\[0\] in any order")
    assert "for its caller" in error.got


def test_scratch_is_the_same_memory_in_the_next_call():
    """One rank's second call overwrites what another one still reads in the first."""
    given = [
        buffer("g", space=Space.PRIVATE),
        buffer("s", role=Role.SCRATCH),
        buffer("q", role=Role.RESULT, space=Space.PRIVATE),
    ]
    body = [
        tile(load("g"), store("s"), cut=None),
        tile(load("s", 0), store("q"), cut=None),
        Barrier(1),
    ]
    refused(plan(*body, buffers=given), r"touch s\[0\] in any order")


@pytest.mark.parametrize(
    ("name", "step", "match"),
    [
        ("outside", tile(load("m"), store("q"), shape=(201,)), "has no such element"),
        ("not there", tile(load("p", 2), store("q")), "a rank that is not there"),
        ("private", tile(load("g", 1), store("q")), r"peers touch g\[1\].*private"),
        ("given", tile(load("g"), store("g")), "is no updated argument"),
        ("unwritten", tile(load("s"), store("q")), "is read before it is written"),
        ("in part", tile(load("g"), store("q")), "is not written whole in call 1"),
        ("cut", tile(load("g", OWN, Index.PIECE), store("q")), "cut otherwise"),
        (
            "before",
            tile(load("g", OWN, View((0,), (-1,), (200,), None)), store("q")),
            "looks before a buffer on rank 0",
        ),
        (
            "one place",
            tile(load("g"), store("q", OWN, View((None,), (0,), (200,), None))),
            "store to one place",
        ),
        (
            "other elements",
            tile(load("p", OWN, View((None,), (9,), (200,), None)), store("p")),
            "elements of one loop meet",
        ),
    ],
)
def test_a_step_that_is_wrong_alone(name, step, match):
    given = [
        buffer("g", space=Space.PRIVATE),
        buffer("p"),
        buffer("m", cut=cc.FLAT),
        buffer("q", role=Role.RESULT),
        buffer("s", role=Role.SCRATCH),
    ]
    refused(plan(step, buffers=given, updated=["p"]), match)


def test_an_updated_argument_is_written_whole():
    given = [buffer("g", space=Space.PRIVATE), buffer("p", space=Space.PRIVATE)]
    right = plan(tile(load("g"), store("p"), cut=None), buffers=given, updated=["p"])
    verify_plan(right)
    wrong = plan(tile(load("g"), store("p")), buffers=given, updated=["p"])
    error = refused(wrong, r"p\[0\] is not written whole in call 1")
    assert error.got == "nothing stores 72 elements from 128 to 199"


def test_a_plan_begins_with_its_one_arrival():
    right = plan(tile(load("p"), store("p"), cut=None), buffers=GIVEN, updated=["p"])
    for body in [right.body[1:], right.body[::-1], (*right.body, Arrive())]:
        refused(replace(right, body=body), "does not begin with its one arrival")
    refused(replace(right, body=(*right.body, Barrier(3))), "has no name for messages")


def test_given_extents_may_be_large_and_related():
    """As if symbolic where they are not related, else as they are."""
    given = [
        buffer("g", (512, 512), space=Space.PRIVATE),
        buffer("q", (262144,), role=Role.RESULT, space=Space.PRIVATE),
    ]
    body = tile(load("g"), store("q"), shape=(512, 512), cut=None)
    verify_plan(plan(body, buffers=given))
    wrong = tile(load("g"), store("q"), shape=(511, 512), cut=None)
    refused(plan(wrong, buffers=given), "512 elements from 261632 to 262143")
    huge = [buffer("g", (1 << 40,)), buffer("p", (1 << 40,))]
    right = plan(
        tile(load("g"), store("p", EVERY), shape=(1 << 40,)),
        FenceStores(),
        Barrier(1),
        buffers=huge,
        updated=["p"],
    )
    verify_plan(right)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_pieces_are_uneven_then_empty(program, ranks):
    made = lower(program, ranks)
    uneven, ones = instances(made, made.dims)
    assert set(ones.values()) == {1}
    cut = [
        x for x in (*made.buffers, *made.body) if getattr(x, "cut", None) is not None
    ]
    for x in cut:
        domain = Domain.of(bind(x.shape, uneven), x.cut)
        pieces = [domain.piece_numel(rank, ranks) for rank in range(ranks)]
        assert 0 < pieces[-1] < pieces[0]


@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 3, 5), (2, 0, 3)])
def test_boxes_are_a_range_of_a_shape(shape):
    numel = int(np.prod(shape))
    index = np.arange(numel).reshape(shape)
    for lo, hi in product(range(numel + 1), repeat=2):
        found = [index[np.ix_(*box)] for box in boxes(shape, lo, hi)]
        flat = [int(i) for part in found for i in part.reshape(-1)]
        assert flat == list(range(lo, hi))


def test_sets_of_elements():
    assert elements_text(span(3, 1)) == "element 3"
    assert elements_text(span(3, 4)) == "4 elements from 3 to 6"
    for count, stride in product(range(6), range(4)):
        expected = 0
        for number in range(count):
            expected |= span(1, 2) << number * stride
        assert repeat(span(1, 2), count, stride) == expected


@pytest.mark.parametrize("cut", [None, 0, 1, 2, cc.FLAT, cc.ROWS(1), cc.ROWS(2)])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_elements_are_those_of_the_loop(cut, ranks):
    """Against coordinates, element by element; a view turned, broadcast and moved."""
    shape = 3, 5, 7
    view = View((2, None, 0), (1, 4, 2), (8, 5, 5), None)
    step = tile(load("w"), load("w", OWN, view), shape=shape, cut=cut)
    made = plan(step, buffers=[buffer("w", shape)], ranks=ranks)
    number = np.arange(105)
    seen = 0
    for rank in range(ranks):
        mine = number
        if cut is not None:
            domain = Domain.of(shape, cut)
            lo, hi = domain.piece(rank, ranks)
            split = number.reshape(domain.outer, domain.extent, domain.inner)
            mine = split[:, lo:hi].reshape(-1)
        a, _, c = np.unravel_index(mine, shape) if mine.size else (mine,) * 3
        viewed = np.ravel_multi_index((c + 1, c * 0 + 4, a + 2), (8, 5, 5))
        whole, turned = Accesses(made, {}).of(step, rank)
        assert whole.elements == sum(1 << int(i) for i in mine)
        assert turned.elements == sum(1 << i for i in {int(i) for i in viewed})
        seen |= whole.elements
    assert seen == span(0, 105)

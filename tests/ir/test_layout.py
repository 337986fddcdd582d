"""Pieces: for every cut they cover the tensor, once, where the rule says."""

import itertools
from math import prod

import numpy as np
import pytest

from coconet.ir import FLAT, ROWS, Domain, Local, Replicated, Rooted, Sliced
from coconet.ir.layout import FLAT_ALIGNMENT, piece_shape
from coconet.ir.types import layout_text

SHAPES = [(), (0,), (1,), (7,), (63,), (64,), (65,), (130,), (1000,)]
SHAPES += [(3, 5), (5, 1), (0, 4), (4, 0), (8, 16), (2, 3, 4), (7, 1, 5), (2, 3, 4, 5)]
CASES = [
    (shape, cut)
    for shape in SHAPES
    for cut in (FLAT, *range(len(shape)), *(ROWS(k + 1) for k in range(len(shape))))
]
RANKS = (1, 2, 3, 4, 8)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("shape", "cut"), CASES, ids=str)
def test_pieces_cover_and_do_not_overlap(shape, cut, ranks):
    domain = Domain.of(shape, cut)
    assert domain.outer * domain.extent * domain.inner == prod(shape)
    index = np.arange(prod(shape)).reshape(domain.outer, domain.extent, domain.inner)
    borders = [domain.piece(rank, ranks) for rank in range(ranks)]
    assert borders[0][0] == 0
    assert borders[-1][1] == domain.extent
    assert all(a[1] == b[0] for a, b in itertools.pairwise(borders))
    seen = np.concatenate([index[:, lo:hi].reshape(-1) for lo, hi in borders])
    assert sorted(seen) == list(range(prod(shape)))


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("shape", "cut"), CASES, ids=str)
def test_a_piece_is_stored_in_the_shape_that_holds_it(shape, cut, ranks):
    domain = Domain.of(shape, cut)
    for rank in range(ranks):
        lo, hi = domain.piece(rank, ranks)
        stored = piece_shape(shape, cut, rank, ranks)
        assert prod(stored) == domain.piece_numel(rank, ranks)
        match cut:
            case int():
                assert stored == (*shape[:cut], hi - lo, *shape[cut + 1 :])
            case ROWS(k):
                assert stored == (hi - lo, *shape[len(shape) - k :])
            case _:
                assert stored == (hi - lo,)


@pytest.mark.parametrize("numel", [0, 1, 63, 64, 65, 127, 128, 129, 130, 1000, 4097])
@pytest.mark.parametrize("ranks", RANKS)
def test_flat_borders_fall_on_64_elements(numel, ranks):
    domain = Domain.of((numel,), FLAT)
    pieces = [domain.piece(rank, ranks) for rank in range(ranks)]
    inner = {lo for lo, hi in pieces if lo < numel}
    assert all(lo % FLAT_ALIGNMENT == 0 for lo in inner)
    assert max(hi - lo for lo, hi in pieces) <= -(-numel // ranks) + 63


def test_dims_are_cut_as_torch_chunk_does():
    pieces = [Domain.of((10,), 0).piece(rank, 4) for rank in range(4)]
    assert pieces == [(0, 3), (3, 6), (6, 9), (9, 10)]
    pieces = [Domain.of((4,), 0).piece(rank, 3) for rank in range(3)]
    assert pieces == [(0, 2), (2, 4), (4, 4)]


def test_one_element_by_flat_is_on_rank_0_alone():
    numels = [Domain.of((), FLAT).piece_numel(rank, 3) for rank in range(3)]
    assert numels == [1, 0, 0]


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Replicated(), "Replicated"),
        (Local(), "Local"),
        (Rooted(1), "Rooted(root=1)"),
        (Sliced(0), "Sliced(0)"),
        (Sliced(FLAT), "Sliced(FLAT)"),
        (Sliced(ROWS(2)), "Sliced(ROWS(k=2))"),
    ],
)
def test_text(layout, text):
    assert layout_text(layout) == text


@pytest.mark.parametrize("cut", [-1, 1.0, "0", None, True])
def test_a_cut_is_a_dim_flat_or_rows(cut):
    with pytest.raises(ValueError, match="a cut is"):
        Sliced(cut)


@pytest.mark.parametrize("k", [-1, 1.5, True])
def test_rows_keep_a_number_of_dims(k):
    with pytest.raises(ValueError, match="a number of dims"):
        ROWS(k)

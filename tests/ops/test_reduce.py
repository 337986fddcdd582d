"""Reductions: the fixed tree, every layout, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from ops.reduction_programs import GROUP, KINDS, SIZES, reduced, reductions, views

import coconet as cc
from coconet.errors import DtypeError, LayoutError, ProgramError, ShapeError
from coconet.interp import first_difference, random_arguments, run_plan, run_program
from coconet.ir.layout import FLAT_ALIGNMENT
from coconet.lower import lower
from coconet.plan.tree import (
    LEAF,
    fold_rows,
    fold_subtrees,
    piece_subtrees,
    subtrees,
)


def by_hand(values: list[float]) -> float:
    """Fold a list as docs/language.md says, one f32 addition at a time."""
    f = np.float32

    def leaf(part: list[float]) -> np.float32:
        lanes: list[np.float32 | None] = [None] * 16
        for number, value in enumerate(part):
            lane = lanes[number % 16]
            lanes[number % 16] = f(value) if lane is None else f(lane + f(value))
        width = 8
        while width:
            for j in range(width):
                a, b = lanes[j], lanes[j + width]
                lanes[j] = b if a is None else a if b is None else f(a + b)
            width //= 2
        assert lanes[0] is not None
        return lanes[0]

    nodes = [leaf(values[i : i + 64]) for i in range(0, len(values), 64)]
    while len(nodes) > 1:
        pairs = [f(sum(nodes[i : i + 2])) for i in range(0, len(nodes) - 1, 2)]
        nodes = pairs + nodes[len(nodes) // 2 * 2 :]
    return float(nodes[0])


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 63, 64, 65, 200, 449, 1000])
def test_the_tree_is_the_one_in_the_docs(count: int) -> None:
    rng = np.random.default_rng(count)
    values = (rng.standard_normal(count) * 10 ** rng.uniform(-6, 6, count)).astype("f4")
    assert float(fold_rows(values[None], "add")[0]) == by_hand(values.tolist())


@pytest.mark.parametrize("leaves", [1, 2, 3, 5, 8, 13, 27])
def test_subtrees_of_any_pieces_fold_to_the_same_bits(leaves: int) -> None:
    rng = np.random.default_rng(leaves)
    values = rng.standard_normal(leaves * 64 - 7).astype("f4")
    whole = fold_rows(values[None], "add")[0]
    for _ in range(20):
        borders = sorted({0, leaves, *rng.integers(0, leaves + 1, 3).tolist()})
        pieces = [
            (a, b, piece_subtrees(values[a * 64 : b * 64], a, "add"))
            for a, b in itertools.pairwise(borders)
        ]
        assert fold_subtrees(pieces, "add", values.dtype) == whole


def test_pieces_by_flat_end_at_leaf_borders() -> None:
    assert FLAT_ALIGNMENT % LEAF == 0


def test_subtrees_are_few_aligned_and_whole() -> None:
    for first in range(40):
        for end in range(first, 80):
            found = list(subtrees(first, end))
            covered = [
                leaf
                for level, index in found
                for leaf in range(index << level, (index + 1) << level)
            ]
            assert covered == list(range(first, end))
            assert len(found) <= 2 * max(end.bit_length(), 1)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_plans_fold_as_programs_say(ranks: int) -> None:
    cases = 0
    for program in (*reductions(), *views()):
        plan = lower(program, ranks)
        for number, sizes in enumerate(SIZES):
            arguments = random_arguments(program, ranks, sizes, number)
            need = run_program(program, ranks, sizes, arguments)
            got = run_plan(plan, sizes, arguments, seed=number)
            found = first_difference(got.outputs, need.outputs)
            assert found is None, f"{program}\n{plan}\n{sizes}: {found}"
            cases += 1
    assert cases > 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_reduction_is_what_numpy_finds(kind: str) -> None:
    program = reduced(kind, cc.Sliced(cc.FLAT), dtype=cc.f64)
    sizes = {"A": 5, "B": 7, "C": 11}
    arguments = random_arguments(program, 3, sizes, 1)
    whole = np.concatenate(arguments["x"])
    functions = {
        "sum": np.sum,
        "mean": np.mean,
        "max": np.max,
        "min": np.min,
        "prod": np.prod,
        "norm_1": lambda x: np.abs(x).sum(),
        "norm_2": lambda x: np.sqrt(np.square(x).sum()),
        "norm_inf": lambda x: np.abs(x).max(),
    }
    got = run_program(program, 3, sizes, arguments).outputs
    first, *others = next(iter(got.values()))
    assert np.allclose(first, functions[kind](whole), rtol=1e-13)
    assert all(first == other for other in others)


def test_flat_pieces_fold_to_the_bits_of_the_whole() -> None:
    sizes = {"A": 13, "B": 11, "C": 17}
    whole, pieces = (
        reduced("norm_2", layout) for layout in (cc.Replicated(), cc.Sliced(cc.FLAT))
    )
    need = run_program(whole, 1, sizes, random_arguments(whole, 1, sizes, 3))
    for ranks in (1, 2, 3, 4, 8):
        got = run_program(
            pieces, ranks, sizes, random_arguments(pieces, ranks, sizes, 3)
        )
        bits = next(iter(need.outputs.values()))[0]
        assert all(x == bits for x in next(iter(got.outputs.values())))


def test_folds_of_nothing() -> None:
    sizes = {"A": 2, "B": 3, "C": 0}
    results: dict[str, float] = {}
    for kind in KINDS:
        program = reduced(kind, cc.Replicated())
        arguments = random_arguments(program, 1, sizes, 0)
        outputs = run_program(program, 1, sizes, arguments).outputs
        results[kind] = float(next(iter(outputs.values()))[0])
    assert math.copysign(1, results["sum"]) == 1.0
    assert math.isnan(results.pop("mean"))
    assert results == {
        "sum": 0.0,
        "max": -math.inf,
        "min": math.inf,
        "prod": 1.0,
        "norm_1": 0.0,
        "norm_2": 0.0,
        "norm_inf": 0.0,
    }


def test_nan_wins_and_integers_wrap() -> None:
    x = cc.tensor("x", cc.f32, (4,), cc.Replicated(), GROUP)
    p = cc.program("p", inputs=[x], outputs=[cc.max_(x), cc.min_(x)])
    values = np.array([1, np.nan, -np.inf, np.inf], "f4")
    outputs = run_program(p, 1, {}, {"x": [values]}).outputs
    assert all(np.isnan(out[0]) for out in outputs.values())
    y = cc.tensor("y", cc.u8, (4,), cc.Replicated(), GROUP)
    q = cc.program("q", inputs=[y], outputs=[cc.sum_(y), cc.max_(y)])
    given = np.array([200, 100, 3, 4], "u1")
    total, largest = run_program(q, 1, {}, {"y": [given]}).outputs.values()
    assert (int(total[0]), int(largest[0])) == (307 - 256, 200)


def test_what_has_no_meaning_is_refused() -> None:
    def x(layout: object = None, dtype: cc.DType = cc.f32) -> cc.Tensor:
        return cc.tensor("x", dtype, (4, 5, 6), layout or cc.Replicated(), GROUP)

    with pytest.raises(LayoutError, match=r"cut by ROWS\(2\)"):
        cc.sum_(x(cc.Sliced(cc.FLAT)), 1)
    with pytest.raises(LayoutError, match=r"among the last k"):
        cc.sum_(x(cc.Sliced(cc.ROWS(1))), (1, 2))
    with pytest.raises(ShapeError, match="not there, or twice"):
        cc.sum_(x(), 3)
    with pytest.raises(ShapeError, match="not there, or twice"):
        cc.sum_(x(), (2, -1))
    with pytest.raises(DtypeError, match="a float tensor"):
        cc.mean(x(dtype=cc.i32))
    with pytest.raises(DtypeError, match="a float tensor"):
        cc.norm(x(dtype=cc.i32))
    with pytest.raises(DtypeError, match="numbers"):
        cc.max_(x(dtype=cc.bool_))
    with pytest.raises(ProgramError):
        cc.sum_(cc.scalar("s"))
    with pytest.raises(ValueError, match="1, 2 or inf"):
        cc.norm(x(), ord=3)
    with pytest.raises(TypeError, match="an int, ints or None"):
        cc.sum_(x(), (1.5,))

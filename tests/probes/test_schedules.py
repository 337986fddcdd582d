"""Small inputs that broke other systems, where no rank is needed to try them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from probes.programs import DP, DTYPES_OF_NUMBERS, A, N, one_update
from probes.truth import check
from probes.value_cases import BESIDE, FOLDED, POINTWISE, SIGNS, of_local

import coconet as cc
from coconet.errors import DtypeError, ScheduleError
from coconet.interp import run_plan, run_program
from coconet.lower import lower
from coconet.ops import AllReduce
from coconet.schedule import Fuse
from coconet.settings import settings
from coconet.tuning.search import search
from coconet.workloads.optimizers import adam


@pytest.mark.parametrize(
    ("make", "meaning"), [pytest.param(*row[1:], id=row[0]) for row in BESIDE + SIGNS]
)
def test_no_schedule_moves_anything_over_a_sum_of_ranks(make, meaning):
    """pytorch/pytorch#163193, #147180, #165962, #159856, #174536."""
    gs = np.array([[1, 3, 0, -4.5], [2, -1, 0, 1], [-7, 1, -1, 2]], np.float32)
    need = np.asarray(meaning(gs), np.float32)
    sizes, given = {"N": 4}, {"g": list(gs)}
    for schedule in search(of_local(make)).schedules:
        (name,) = (value.name for value in schedule.result.outputs)
        results = [run_program(schedule.result, 3, sizes, given)]
        results.append(run_plan(lower(schedule.result, 3), sizes, given))
        for result, rank in product(results, range(3)):
            check(str(schedule), result.outputs[name][rank], need)


@pytest.mark.parametrize(
    "make", [pytest.param(row[1], id=row[0]) for row in FOLDED + POINTWISE]
)
def test_a_step_that_would_move_over_the_sum_says_so(make):
    """pytorch/pytorch#165962, #159856, #174536."""
    draft = of_local(lambda g: make(cc.all_reduce(g))).schedule()
    (total,) = draft.program.values_of(AllReduce)
    (out,) = draft.program.outputs
    with pytest.raises(ScheduleError, match="needs an all-gather") as caught:
        draft.reorder(total, [out])
    assert "split an all-reduce first" in caught.value.fix
    scatter, _ = draft.split(total)
    with pytest.raises(ScheduleError, match="needs an all-gather"):
        draft.reorder(scatter, [draft.program.outputs[0]])


@pytest.mark.parametrize("dtype", [*DTYPES_OF_NUMBERS, cc.bool_], ids=str)
def test_reductions_without_a_meaning_are_refused(dtype):
    """pytorch/pytorch#162338: on the CPU, mean was sum."""
    x = cc.tensor("x", dtype, (N,), cc.Local(), DP)
    for collective in (cc.all_reduce, cc.reduce_scatter):
        for op in ("sum", "prod", "max", "min", "mean"):
            if dtype is cc.bool_ or (op == "mean" and not dtype.is_float):
                with pytest.raises(DtypeError, match=f"{op} has no meaning for"):
                    collective(x, op)
            else:
                assert collective(x, op).type.dtype is dtype
        with pytest.raises(ValueError, match="got 'avg'"):
            collective(x, "avg")


@pytest.fixture
def alone(own_cache, alone):
    return alone


def test_a_tuned_step_takes_any_size(alone):
    """sgl-project/sglang#24548: a tensor larger than the workspace crashed."""
    sizes = {"A": 1, "B": 100, "C": 1}
    step = cc.tune(one_update(), group=alone, sizes=sizes, time_box_s=0.1)
    for size in (100, 101, 1_000_003, 0, 1):
        g = np.arange(size, dtype=np.float32).reshape(1, size, 1)
        p = np.ones_like(g)
        check("result", step(g, p), g + g)
        check("p", p, 1 - g)


def test_what_is_said_to_be_applied_is(alone):
    """pytorch/torchtitan#1613, vllm-project/vllm#52683."""
    written = cc.explain(adam, N=1000)
    for name, schedule in cc.library(adam).items():
        said = cc.explain(cc.compile(schedule, group=alone), N=1000)
        assert said.applied == tuple(map(str, schedule.steps))
        assert (name == "as_written") == ("applied  nothing" in str(said))
        if any(isinstance(step, Fuse) for step in schedule.steps):
            alike = cc.explain(schedule, ranks=written.ranks, N=1000)
            assert len(alike.kernels) < len(written.kernels)
            assert alike.cost.moved_bytes < written.cost.moved_bytes


def test_what_is_not_applied_has_a_reason():
    """pytorch/torchtitan#1613, vllm-project/vllm#52683."""
    x = cc.tensor("x", cc.f32, (A, N), cc.Local(), DP)
    folds = [cc.sum_(cc.all_reduce(x), dim) for dim in (0, 1)]
    program = cc.program("folds", inputs=[x], outputs=folds)
    said = cc.explain(program)
    assert said.applied == ()
    assert said.refused
    assert all(step and why for step, why in said.refused)
    assert all(f"refused  {step}: {why}" in str(said) for step, why in said.refused)


NUMBERS = {
    "COCONET_TIMEOUT": ("0", "-1", "soon", "nan", "True"),
    "COCONET_WARN": ("0", "-1", "soon", "nan", "True"),
    "COCONET_MEMORY": ("-1", "1.5", "all", "True"),
    "COCONET_THREADS": ("-1", "1.5", "all", "True"),
}


@pytest.mark.parametrize(
    ("name", "bad"), [(name, bad) for name in NUMBERS for bad in NUMBERS[name]]
)
def test_settings_that_cannot_be_meant_are_refused(name, bad, monkeypatch):
    """NVIDIA/recsys-examples#374: a size of True was taken, and did nothing."""
    monkeypatch.setenv(name, bad)
    with pytest.raises(ValueError, match=name):
        settings()


WRONG: tuple[Any, ...] = (True, False, 0, -1, "2", 1.5, [2])


@pytest.mark.parametrize("bad", WRONG, ids=repr)
def test_numbers_to_explain_that_cannot_be_meant_are_refused(bad):
    """NVIDIA/recsys-examples#374: a size of True was taken, and did nothing."""
    for options in ({"ranks": bad}, {"N": bad}, {"sizes": {"N": bad}}):
        with pytest.raises((TypeError, ValueError)) as caught:
            cc.explain(adam, **options)
        assert repr(bad) in str(caught.value)

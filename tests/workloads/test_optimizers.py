"""Mixed precision: one kernel, the same bits everywhere, the rounding it promises."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import coconet as cc
from coconet.interp import run_program
from coconet.ops import Cast
from coconet.verification import verify_on_processes
from coconet.workloads import optimizers
from coconet.workloads.optimizers import (
    ADAM_MIXED_STATE,
    SGD_MIXED_STATE,
    adam_mixed,
    adam_mixed_f16,
    sgd_mixed,
    sgd_mixed_f16,
)

MIXED = {
    "adam_mixed": (adam_mixed, ADAM_MIXED_STATE),
    "adam_mixed_f16": (adam_mixed_f16, ADAM_MIXED_STATE),
    "sgd_mixed": (sgd_mixed, SGD_MIXED_STATE),
    "sgd_mixed_f16": (sgd_mixed_f16, SGD_MIXED_STATE),
}
HALF = {
    "sgd_mixed": np.dtype(ml_dtypes.bfloat16),
    "sgd_mixed_f16": np.dtype(np.float16),
}


@pytest.mark.parametrize("name", MIXED)
def test_exchange_update_and_copy_are_one_kernel(name):
    program, state = MIXED[name]
    result = cc.library(program, state=state)["fused_sliced"].result
    (kernel,) = result.fusions
    outside = [value for value in result.values if value not in kernel.members]
    assert all(value.type.is_scalar for value in outside)
    casts = [value.type.dtype for value in result.values_of(Cast)]
    assert casts == [cc.f32, program["p"].type.dtype]
    for tensor in result.tensors:
        is_sliced = isinstance(tensor.type.layout, cc.Sliced)
        assert is_sliced == (tensor.name in state)


@pytest.mark.parametrize("name", MIXED)
def test_every_schedule_keeps_the_bits(name):
    program, state = MIXED[name]
    schedules = cc.library(program, state=state)
    assert schedules.keys() >= {"one_shot", "split_fused", "fused", "fused_sliced"}
    for schedule in schedules.values():
        sizes = [{"N": n} for n in (0, 1, 65, 200)]
        report = cc.verify(schedule, ranks=(1, 2, 3, 4), sizes=sizes)
        assert not report.mismatches


@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("name", "ranks"), [("adam_mixed", (1, 3)), ("adam_mixed_f16", (2,))]
)
def test_kernels_keep_the_bits(name, ranks):
    report = verify_on_processes(Path(optimizers.__file__), name, ranks)
    assert not report.mismatches
    assert {case.schedule for case in report.cases} >= {"as_written", "fused_sliced"}


@pytest.mark.parametrize("name", HALF)
def test_steps_too_small_for_16_bits_add_up_in_the_master_weights(name):
    half, ranks = HALF[name], 2
    w = [np.ones(70, np.float32)] * ranks
    p = [x.astype(half) for x in w]
    for _ in range(64):
        given = {"g": [np.ones(70, half)] * ranks, "p": p, "w": w, "lr": 2.0**-14}
        effects = run_program(MIXED[name][0], ranks, {"N": 70}, given).effects
        p, w = effects["p"], effects["w"]
    assert np.all(w[0] == 1 - 2.0**-8)
    assert np.all(p[1] == w[0].astype(half))


@pytest.mark.parametrize("name", HALF)
def test_the_exchange_rounds_the_mean_once(name):
    half = HALF[name]
    g = [np.full(3, x, half) for x in (256.0, 1.0, 1.0)]
    zeros = {"p": [np.zeros(3, half)] * 3, "w": [np.zeros(3, np.float32)] * 3}
    given = {"g": g, **zeros, "lr": 1.0}
    w = run_program(MIXED[name][0], 3, {"N": 3}, given).effects["w"][0]
    assert np.all(w == -np.float32(258 / 3).astype(half).astype(np.float32))

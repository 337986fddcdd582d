"""Explanations: what is applied, refused, moved and measured."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.tuning.progress import Progress
from coconet.tuning.request import Request
from coconet.tuning.traffic import least_bytes
from coconet.tuning.tune import tune
from coconet.workloads.optimizers import ADAM_STATE, adam, sgd

N = 1 << 20


def fused() -> cc.Schedule:
    return cc.library(adam, state=ADAM_STATE)["fused_sliced"]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_least_of_an_adam_step_is_8_n_and_20_n_over_p(ranks):
    least = least_bytes(fused().result, ranks, {"N": N})
    assert least == 8 * N + 20 * N // ranks


def test_the_fused_step_moves_the_least_possible():
    explained = cc.explain(fused(), N=N)
    assert explained.cost.moved_bytes == explained.cost.least_bytes
    assert len(explained.kernels) == 1
    assert len(explained.applied) == len(fused().steps)
    text = str(explained)
    assert "18 MiB a call at N=1048576" in text
    assert "(1.00x)" in text
    assert "  applied  Split" in text
    assert "not measured" in text


def test_the_program_as_written_applies_nothing_and_moves_more():
    explained = cc.explain(adam, sizes={"N": N})
    assert explained.applied == ()
    assert "  applied  nothing" in str(explained)
    assert explained.cost.moved_bytes > 3 * explained.cost.least_bytes
    assert len(explained.kernels) > 10


def test_what_is_refused_has_a_reason():
    refused = cc.explain(fused()).refused
    assert refused
    assert all(step and why for step, why in refused)
    assert f"refused  {refused[0][0]}: {refused[0][1]}" in str(cc.explain(fused()))


def test_without_sizes_nothing_is_counted():
    draft = sgd.schedule()
    draft.split("avg")
    explained = cc.explain(draft)
    assert explained.cost is None
    assert "unknown without sizes" in str(explained)
    assert explained.ranks == 2
    assert cc.explain(draft, ranks=3).ranks == 3


def test_compiled_and_tuned_steps_are_explained(alone, tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("COCONET_CACHE", str(tmp_path))
    explained = cc.explain(cc.compile(fused(), group=alone))
    assert (explained.ranks, len(explained.kernels)) == (1, 1)
    request = Request.of(sgd, sizes={"N": 999}, time_box_s=0.2)
    tuned = tune(request, alone, progress=Progress(None))
    for found in (cc.explain(tuned), cc.explain(sgd, ranks=1, N=999)):
        assert found.median_s == tuned.report.best.median_s
        assert found.baseline_s == tuned.report.baseline.median_s
        assert found.cost.sizes == {"N": 999}
        assert found.applied == tuple(map(str, tuned.schedule.steps))
        assert "without fusions" in str(found)
    assert cc.explain(sgd, ranks=1, N=99).median_s is None


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(TypeError, match="int"):
        cc.explain(3)
    with pytest.raises(ValueError, match="no dim M"):
        cc.explain(adam, M=3)
    with pytest.raises(ValueError, match="ranks"):
        cc.explain(adam, ranks=-1)

"""The bound on the median of paired ratios, and the table made of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from coconet.bench.never_slower import LEAST_RATIO, median_bound, run_never_slower
from coconet.bench.record import Record


@pytest.mark.parametrize(
    ("count", "rank"), [(0, 0), (4, 0), (5, 1), (7, 1), (8, 2), (10, 2), (21, 7)]
)
def test_the_bound_is_an_order_statistic(count: int, rank: int) -> None:
    """The ranks are those of the one-sided sign test at 5 %."""
    samples = [float(n) for n in range(1, count + 1)]
    random.Random(count).shuffle(samples)
    assert median_bound(samples) == rank


def test_the_bound_is_above_the_median_in_at_most_5_of_100() -> None:
    draw = random.Random(7)
    trials = 4000
    above = sum(
        median_bound([draw.expovariate(0.6931471805599453) for _ in range(21)]) > 1.0
        for _ in range(trials)
    )
    assert 0.025 * trials < above < 0.05 * trials


def test_a_name_that_is_no_baseline_is_refused() -> None:
    with pytest.raises(ValueError, match="copy is not among"):
        run_never_slower(1, [1], engines=["copy"])


@pytest.mark.multiproc
def test_ratios_are_paired_with_coconet_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "out.json"
    gloo = "gloo+torch-sgd-fused"
    ratios = run_never_slower(
        2,
        [1, 1001],
        path,
        workloads=("sgd",),
        dtypes=("f32",),
        engines=[gloo],
        time_box_s=0.1,
    )
    assert [(r.elements, r.baseline, r.baseline_dtype) for r in ratios] == [
        (1, gloo, "f32"),
        (1001, gloo, "f32"),
    ]
    for ratio in ratios:
        assert 0 < ratio.lower_bound <= ratio.median
        assert ratio.is_never_slower == (ratio.lower_bound >= LEAST_RATIO)
    report = json.loads(path.read_text())
    assert list(report) == ["machine", "versions", "records", "ratios"]
    assert [entry["baseline"] for entry in report["ratios"]] == [gloo, gloo]
    names = [Record(**entry).name for entry in report["records"]]
    assert names == ["coconet", gloo] * 2
    met = sum(ratio.is_never_slower for ratio in ratios)
    assert f"at least 0.95 in {met} of 2 comparisons" in capsys.readouterr().out

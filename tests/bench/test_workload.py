"""The workload `adam`: sizes, agreement between engines, and a real small run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coconet.bench.engines.engine import gradient, least_bytes, parameter
from coconet.bench.workload import compare, parse_sizes, run_workload
from coconet.errors import VerificationError


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1Ki..64Mi", [1 << e for e in range(10, 27)]),
        ("1..1", [1]),
        ("3..20", [3, 6, 12]),
        ("100,4Ki, 1Mi", [100, 4096, 1 << 20]),
        ("7,1Ki..4Ki", [7, 1024, 2048, 4096]),
        ("2Gi", [2 << 30]),
    ],
)
def test_sizes(text: str, sizes: list[int]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "1K", "Ki", "4Ki..1Ki", "1..", "-1", "0", "1,,2"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_sizes(text)


def test_least_bytes_is_18_per_element_on_two_ranks() -> None:
    assert least_bytes(1 << 20, 2) == 18 << 20
    assert least_bytes(1000, 1) == 28 * 1000
    assert least_bytes(10, 4) == 8 * 10 + 20 * 3


def test_inputs_are_reproducible_and_differ_by_rank() -> None:
    assert np.array_equal(gradient(1000, 1), gradient(1000, 1))
    assert not np.array_equal(gradient(1000, 0), gradient(1000, 1))
    assert float(np.max(np.abs(parameter(1000)))) <= 0.01


def test_compare_names_the_engine_and_rank_that_differ() -> None:
    same = [[1.0, -2.0], [1.0, -2.0]]
    compare({"a": same, "copy": [[], []], "b": [[1.0, -2.0], [1.0 + 1e-6, -2.0]]})
    with pytest.raises(VerificationError, match="b on rank 1") as caught:
        compare({"a": same, "b": [[1.0, -2.0], [1.0, -2.001]]})
    assert "a on rank 0" in str(caught.value)
    with pytest.raises(VerificationError):
        compare({"a": same, "b": [[1.0, float("nan")]]})


def test_an_engine_that_does_not_exist_is_refused_before_any_starts() -> None:
    with pytest.raises(ValueError, match="mpi"):
        run_workload("adam", 2, [1], engines=["copy", "mpi"])


@pytest.mark.multiproc
def test_the_gloo_engines_and_copy_run_and_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    names = ["gloo+torch-adam-fused", "gloo-rs-adam-ag", "copy"]
    path = tmp_path / "adam.json"
    records = run_workload("adam", 2, [1, 1001], path, engines=names, time_box_s=1.0)
    assert [(r.elements, r.name) for r in records] == [
        (elements, name) for elements in (1, 1001) for name in names
    ]
    for entry in records:
        assert 0 < entry.p10_ms <= entry.median_ms <= entry.p90_ms
        assert entry.runs >= 5
        assert entry.bytes_per_rank == least_bytes(entry.elements, 2)
    assert len(json.loads(path.read_text())["records"]) == 6
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out] == ["elements", "1", "1001"]

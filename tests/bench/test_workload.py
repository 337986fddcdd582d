"""The workload `adam`: sizes, agreement between engines, and a real small run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coconet.bench.engines.task import Task
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


def test_least_bytes_are_exchanged_and_kept() -> None:
    adam, sgd = Task("adam", "f32"), Task("sgd", "f32")
    assert adam.least_bytes(1 << 20, 2) == 18 << 20
    assert adam.least_bytes(1000, 1) == 28 * 1000
    assert adam.least_bytes(10, 4) == 8 * 10 + 20 * 3
    assert sgd.least_bytes(1000, 2) == 8 * 1000 + 4 * 500
    assert Task("adam", "bf16").least_bytes(1000, 2) == 4 * 1000 + 24 * 500
    assert Task("sgd", "bf16").least_bytes(1000, 2) == 4 * 1000 + 8 * 500


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_inputs_are_reproducible_and_differ_by_rank(dtype: str) -> None:
    task = Task("adam", dtype)
    gradients = [task.gradient(1000, rank) for rank in range(4)]
    assert np.array_equal(gradients[1], task.gradient(1000, 1))
    assert not np.array_equal(gradients[0], gradients[1])
    assert float(np.max(np.abs(task.parameter(1000)))) <= 0.01
    for values in (*gradients, task.parameter(1000), np.sum(gradients, axis=0)):
        if dtype == "bf16":
            assert np.array_equal(task.stored(values).astype(np.float32), values)
        else:
            assert task.stored(values) is values


def test_compare_names_the_engine_and_rank_that_differ() -> None:
    same = [[1.0, -2.0], [1.0, -2.0]]
    compare({"a": same, "copy": [[], []], "b": [[1.0, -2.0], [1.0 + 1e-6, -2.0]]})
    with pytest.raises(VerificationError, match="b on rank 1") as caught:
        compare({"a": same, "b": [[1.0, -2.0], [1.0, -2.001]]})
    assert "a on rank 0" in str(caught.value)
    compare({"a": same, "b": [[1.0, -2.001]]}, tolerance=1e-3)
    with pytest.raises(VerificationError):
        compare({"a": same, "b": [[1.0, float("nan")]]}, tolerance=1e-3)


@pytest.mark.parametrize(
    ("workload", "engine"),
    [("adam", "mpi"), ("sgd", "gloo-rs-adam-ag"), ("adam", "coconet-chain")],
)
def test_an_engine_of_no_such_workload_is_refused(workload: str, engine: str) -> None:
    with pytest.raises(ValueError, match=f"{engine} is not among"):
        run_workload(workload, 2, [1], engines=["copy", engine])


@pytest.mark.multiproc
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_gloo_engines_and_ours_run_and_agree(
    dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    names = ["coconet", "gloo+torch-adam-fused", "gloo-rs-adam-ag"]
    path = tmp_path / "out.json"
    records = run_workload(
        "adam", 2, [1, 1001], path, dtype=dtype, engines=names, time_box_s=0.1
    )
    assert [(r.elements, r.name) for r in records] == [
        (elements, name) for elements in (1, 1001) for name in names
    ]
    task = Task("adam", dtype)
    for entry in records:
        assert 0 < entry.p10_ms <= entry.median_ms <= entry.p90_ms
        assert entry.runs >= 5
        assert entry.dtype == dtype
        assert entry.library.split()[0] in ("coconet", "torch")
        assert entry.bytes_per_rank == task.least_bytes(entry.elements, 2)
    assert len(json.loads(path.read_text())["records"]) == 6
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out] == ["a", "b", "elements", "1", "1001"]

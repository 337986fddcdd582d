"""Records, their file, and the facts about the machine beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coconet.bench.machine import machine, memory_bytes, versions
from coconet.bench.record import Record, record, write_json

KEYS = {
    "workload": str,
    "elements": int,
    "dtype": str,
    "ranks": int,
    "name": str,
    "library": str,
    "schedule": str,
    "median_ms": float,
    "p10_ms": float,
    "p90_ms": float,
    "runs": int,
    "bytes_per_rank": int,
}


def _record(samples_s: list[float]) -> Record:
    return record(
        samples_s,
        workload="adam",
        elements=1024,
        dtype="f32",
        ranks=2,
        name="copy",
        library="glibc 2.36",
        schedule="memcpy",
        bytes_per_rank=18 << 10,
    )


def test_percentiles_interpolate_between_samples() -> None:
    entry = _record([0.011, 0.001, *(0.001 * n for n in range(2, 11))])
    assert entry.median_ms == pytest.approx(6.0)
    assert entry.p10_ms == pytest.approx(2.0)
    assert entry.p90_ms == pytest.approx(10.0)
    assert entry.runs == 11


def test_one_sample_is_all_percentiles() -> None:
    entry = _record([0.25])
    assert (entry.p10_ms, entry.median_ms, entry.p90_ms) == (250.0, 250.0, 250.0)


def test_the_file_has_exactly_the_promised_fields(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_json(
        path, machine={"cores": 2}, versions={"numpy": "2"}, records=[_record([1.0])]
    )
    report = json.loads(path.read_text())
    assert list(report) == ["machine", "versions", "records"]
    (entry,) = report["records"]
    assert {key: type(value) for key, value in entry.items()} == KEYS


def test_machine_facts_are_json_and_plausible() -> None:
    facts = json.loads(json.dumps(machine()))
    assert facts["cpu"]
    assert 1 <= facts["usable_cores"] <= facts["cores"]
    assert facts["memory_bytes"] == memory_bytes() > 1 << 28
    assert all(nbytes >= 1024 for nbytes in facts["cache_bytes"].values())


def test_versions_name_everything_that_takes_part() -> None:
    found = versions()
    assert set(found) == {"python", "coconet", "numpy", "torch", "compiler"}
    assert all(found.values())

"""Runs of a few small steps on real processes, with torch and without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from markupsafe import escape

from coconet.demo.checks import checks
from coconet.demo.facts import RankReport, Trace, sides
from coconet.demo.listing import Listing
from coconet.demo.recipe import Recipe
from coconet.demo.report import page
from coconet.demo.run import run

MINI = Recipe(
    steps=24,
    warm=4,
    alone_every=4,
    batch=4,
    context=16,
    layers=1,
    width=32,
    heads=2,
    text_bytes=100_000,
)
ALONE = 5  # steps 4, 8, 12, 16, 20

SMALL = """
import sys
from pathlib import Path
from coconet.cli import demo
from coconet.demo.recipe import Recipe

demo.Recipe = lambda **fields: Recipe(steps=60, elements=10_007, **fields)
sys.exit(demo.main(ranks=2, out=Path(sys.argv[1]), as_json=True))
"""


def trace(iteration_s: list[float], alone_s: list[float], **fields) -> Trace:
    defaults = {"losses": [2.0, 1.0, 1.0], "state_bytes": 8, "digest": "ab"}
    return Trace(
        iteration_s=iteration_s,
        alone_steps=[1, 2],
        alone_s=alone_s,
        **{**defaults, **fields},
    )


def test_ranks_are_joined_by_the_slowest_and_the_mean(tmp_path):
    fast = trace([9.0, 0.003, 0.005], [0.001, 0.002])
    slow = trace([9.0, 0.004, 0.001], [0.002, 0.001], losses=[4.0, 3.0, 2.0])
    for rank, own in enumerate((fast, slow)):
        RankReport("task", False, ("a", "b"), (own, fast), Listing(*"abcde"), []).write(
            tmp_path / f"{rank}.json"
        )
    reports = [RankReport.read(tmp_path / f"{rank}.json") for rank in range(2)]
    ours, reference = sides(reports, warm=1)
    assert (ours.name, reference.name) == ("a", "b")
    assert ours.losses == [3.0, 2.0, 1.5]
    assert ours.iteration.runs == 2
    assert ours.iteration.median_ms == pytest.approx(4.5)
    assert ours.rest.median_ms == pytest.approx(2.5)  # 4 - 2 and 5 - 2
    assert ours.state_bytes == [8, 8]


@pytest.mark.multiproc
def test_both_sides_train_and_agree():
    pytest.importorskip("torch")
    facts = run(2, MINI)
    assert not isinstance(facts, int)
    assert [c for c in checks(facts) if not c.passed] == []
    ours, reference = facts.ours, facts.reference
    assert len(ours.losses) == len(reference.losses) == MINI.steps
    assert ours.losses != reference.losses  # two computations, not one shown twice
    for side in (ours, reference):
        assert side.iteration.runs == MINI.steps - MINI.warm
        assert side.alone.runs == side.rest.runs == ALONE
        assert 0 < side.iteration.p10_ms <= side.iteration.median_ms
        assert len(set(side.digests)) == 1
    whole = max(reference.state_bytes)
    assert 0.4 * whole < sum(ours.state_bytes) / 2 < 0.6 * whole
    assert "transformer" in facts.task
    assert "Fuse" in facts.listing.schedule
    assert "all_reduce" in facts.listing.before
    assert "cc_kernel" in facts.listing.code
    assert str(escape(facts.listing.code)) in page(facts, checks(facts))


def without_torch(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which no interpreter finds torch."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys; sys.modules['torch'] = None")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    return {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(temporary)}


@pytest.mark.multiproc
def test_without_torch_the_same_update_runs_on_arrays(tmp_path):
    out = tmp_path / "report.html"
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(out)],
        env=without_torch(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["is_exact"]
    assert [check["passed"] for check in found["checks"]] == [True] * 5
    assert found["ours"]["digests"] == found["reference"]["digests"]
    assert found["ours"]["losses"] == found["reference"]["losses"]
    assert sum(found["ours"]["state_bytes"]) == found["reference"]["state_bytes"][0]
    assert "torch is not installed" in " ".join(found["notes"])
    assert "torch is not installed" in done.stderr
    assert "torch is not installed" in out.read_text()
    assert list((tmp_path / "tmp").iterdir()) == []


def processes_of(folder: Path) -> list[str]:
    """Return the processes whose environment names a folder."""
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (place / "environ").read_bytes():
                found.append(place.name)
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.mark.multiproc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_and_leaves_nothing(tmp_path, number):
    out = tmp_path / "report.html"
    command = [sys.executable, "-m", "coconet", "demo", "--out", str(out)]
    with subprocess.Popen(
        command,
        env=without_torch(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout:
            if line.startswith("step"):
                process.send_signal(number)
                break
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "2 ranks stopped" in stderr
    assert not out.exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert processes_of(tmp_path) == []

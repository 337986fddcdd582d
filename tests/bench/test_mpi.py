"""The engines on MPI: each on the library it is named after, or not at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from coconet.bench.driver import open_crews
from coconet.bench.engines.table import ENGINES, WORKLOADS, absent
from coconet.bench.engines.task import Task
from coconet.bench.engines.vendor import INTEL_MPI, MPICH
from coconet.bench.workload import present, run_workload
from coconet.errors import PeerFailed, ResourceError

ROOT = Path(__file__).parents[2]
MPI = [name for name in WORKLOADS["adam"] if ENGINES[name].vendor]
ADAM = Task("adam", "f32")


def _here_or_skip(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if reason := absent(name):
        pytest.skip(reason)


def test_both_forms_run_on_both_libraries() -> None:
    assert MPI == [
        "mpi-mpich+torch-adam-fused",
        "mpi-mpich-rs-adam-ag",
        "mpi-intel+torch-adam-fused",
        "mpi-intel-rs-adam-ag",
    ]


def test_without_its_folder_an_engine_is_left_out_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert present(["mpi-intel-rs-adam-ag", "copy"]) == ["copy"]
    assert capsys.readouterr().out == (
        "mpi-intel-rs-adam-ag is left out: "
        "Intel(R) MPI Library is not installed; make mpi\n"
    )


def test_a_library_is_known_by_its_own_version_string() -> None:
    MPICH.check("MPICH Version: 5.0.2")
    INTEL_MPI.check("Intel(R) MPI Library 2021.18.1 for Linux* OS")
    for vendor, version in (
        (MPICH, "Open MPI v5.0.1"),
        (MPICH, "Intel(R) MPI Library 2021.18.1 for Linux* OS"),
        (INTEL_MPI, "MPICH Version: 5.0.2"),
        (INTEL_MPI, "MPICH Version: 4.0, Intel(R) MPI Library 2021"),
    ):
        with pytest.raises(ResourceError, match="another one") as caught:
            vendor.check(version)
        assert version in str(caught.value)
        assert vendor.name in str(caught.value)


@pytest.mark.multiproc
def test_another_library_in_the_folder_fails_the_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for mpiexec starts one rank, on a stand-in for mpi4py."""
    pytest.importorskip("torch")
    folder = tmp_path / ".mpi" / "mpich"
    for name in ("bin", "lib", "mpi4py"):
        (folder / name).mkdir(parents=True)
    mpiexec = folder / "bin" / "mpiexec"
    mpiexec.write_text('#!/bin/sh\nshift 2  # -n 1\n"$@"\n')
    mpiexec.chmod(0o700)
    (folder / "mpi4py" / "__init__.py").write_text("class rc: pass\n")
    (folder / "mpi4py" / "MPI.py").write_text(
        "COMM_WORLD = None\n"
        "def Get_library_version(): return 'Open MPI v5.0.1, package: x\\nmore'\n"
        "def Finalize(): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResourceError, match="another one") as caught:
        run_workload("adam", 1, [1], engines=[MPI[0]])
    assert caught.value.got == "Open MPI v5.0.1, package: x"


@pytest.mark.multiproc
@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["mpich", "intel"])
def test_the_engines_of_a_library_agree_with_copy_beside(
    vendor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in MPI if vendor in name]
    _here_or_skip(names[0], monkeypatch)
    records = run_workload("adam", 2, [1, 1001], engines=names, time_box_s=0.1)
    assert [entry.name for entry in records] == names * 2
    library = ENGINES[names[0]].vendor
    assert library is not None
    for entry in records:
        assert entry.library.startswith(library.name)
        assert any(c.isdigit() for c in entry.library)
        assert "adam(fused)" in entry.schedule
        assert entry.median_ms > 0


@pytest.mark.multiproc
@pytest.mark.slow
@pytest.mark.parametrize("name", MPI[::2])
def test_ranks_that_fail_are_quoted_and_none_is_left(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _here_or_skip(name, monkeypatch)
    with open_crews([name], 2, ADAM) as (crew,):
        with pytest.raises(PeerFailed, match="failed in 'prepare'") as caught:
            crew.ask("prepare", elements=-1)
        assert caught.value.ranks == (0, 1)
        assert "ValueError: negative dimensions" in str(caught.value.got)
    with open_crews([name], 2, ADAM) as (crew,):
        os.kill(crew.pids[1], signal.SIGKILL)
        with pytest.raises(PeerFailed):
            crew.ask("prepare", elements=10)
    assert not any(Path(f"/proc/{pid}").exists() for pid in crew.pids)

"""The doctor: every line, each fix, and its exit code."""

from __future__ import annotations

import json
import os
from collections import namedtuple

import pytest

from coconet.cli import doctor

NAMES = [
    *("versions", "compiler", "kernels", "cores"),
    *("memfd", "pidfd", "/dev/shm", "torch"),
]
Usage = namedtuple("Usage", "total used free")


def refuse(*_: object) -> int:
    raise PermissionError(1, "Operation not permitted")


@pytest.fixture(autouse=True)
def private_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COCONET_CACHE", str(tmp_path / "cache"))


def test_every_check_has_a_line(capsys):
    doctor.main(as_json=False)
    lines = [x for x in capsys.readouterr().out.splitlines() if not x.startswith(" ")]
    assert [line.split()[1] for line in lines] == NAMES


def test_json_is_the_same_report(capsys):
    code = doctor.main(as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is (code == 0)
    assert [row["name"] for row in report["checks"]] == NAMES


def test_only_an_ok_line_goes_without_a_fix():
    assert all(
        (check.status == "OK") != bool(check.fix) for check in doctor.run_checks()
    )


def test_no_compiler_is_a_warning(monkeypatch, capsys):
    monkeypatch.setenv("CC", "/nonexistent/cc")
    assert doctor.check_compiler().status == "WARN"
    assert doctor.check_kernels().status == "WARN"
    assert doctor.main(as_json=False) == 0
    assert "unset CC" in capsys.readouterr().out


def test_a_broken_compiler_fails(monkeypatch):
    monkeypatch.setenv("CC", "false")
    for check in (doctor.check_compiler(), doctor.check_kernels()):
        assert check.status == "FAIL"
        assert "CC" in check.fix


def test_an_unsafe_cache_fails(monkeypatch, tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("COCONET_CACHE", str(folder))
    check = doctor.check_kernels()
    assert check.status == "FAIL"
    assert f"chmod 700 {folder}" in check.fix


def test_a_cache_that_cannot_be_made_is_a_warning(monkeypatch, tmp_path):
    monkeypatch.setenv("COCONET_CACHE", "/proc/coconet")
    assert doctor.check_kernels().status == "WARN"


@pytest.mark.parametrize("call", ["memfd_create", "pidfd_open", "posix_fallocate"])
def test_a_missing_system_call_fails(monkeypatch, capsys, call):
    monkeypatch.setattr(os, call, refuse)
    assert doctor.main(as_json=False) == 1
    assert "not permitted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("quota", "allowed", "status"),
    [(None, 8, "OK"), (2.0, 8, "WARN"), (1.5, 8, "WARN"), (None, 1, "WARN")],
)
def test_cores_that_cannot_be_used_are_seen(monkeypatch, quota, allowed, status):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(allowed)))
    monkeypatch.setattr(doctor, "_cpu_quota", lambda: quota)
    assert doctor.check_cores().status == status


@pytest.mark.parametrize(("free", "status"), [(64 * 2**20, "WARN"), (4 * 2**30, "OK")])
def test_a_small_dev_shm_is_a_warning(monkeypatch, free, status):
    usage = Usage(total=free, used=0, free=free)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    assert doctor.check_dev_shm().status == status


@pytest.mark.parametrize(
    ("found", "status"),
    [("2.13.0+cpu", "OK"), ("2.11.0", "OK"), ("2.10.1", "WARN"), ("3.0.0a1", "OK")],
)
def test_an_old_torch_is_a_warning(monkeypatch, found, status):
    monkeypatch.setattr(doctor, "version", lambda _: found)
    assert doctor.check_torch().status == status

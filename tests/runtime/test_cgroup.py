"""Limits of control groups, read from a folder made to look like theirs."""

from pathlib import Path

import pytest

from coconet.runtime import cgroup

STAT = "anon 5\nactive_file 10\ninactive_file 20\n"


@pytest.fixture
def outer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A group with limits around one without."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.setattr(cgroup, "_levels", lambda: [inner, *inner.parents])
    for level, memory, cpu in ((inner, "max", "max"), (inner.parent, "1000", "150000")):
        (level / "memory.max").write_text(f"{memory}\n")
        (level / "memory.current").write_text("300\n")
        (level / "memory.stat").write_text(STAT)
        (level / "cpu.max").write_text(f"{cpu} 100000\n")
    return inner.parent


def test_limits_of_every_level_count(outer: Path) -> None:
    assert cgroup.room_bytes() == [1000 - 300 + 30]
    assert cgroup.num_cpus() == [1.5]


def test_a_group_may_hold_more_than_its_limit(outer: Path) -> None:
    (outer / "memory.max").write_text("100")
    assert cgroup.room_bytes() == [0]


def test_this_process_is_in_groups_that_can_be_read() -> None:
    assert all(room >= 0 for room in cgroup.room_bytes())
    assert all(count > 0 for count in cgroup.num_cpus())

"""What is kept between runs, and under which name."""

from __future__ import annotations

import logging

import pytest

import coconet as cc
from coconet.errors import CacheError
from coconet.runtime.cache import read_note, write_note
from coconet.tuning import cache
from coconet.tuning.request import Request
from coconet.workloads.optimizers import adam, sgd


@pytest.fixture
def folder(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("COCONET_CACHE", str(tmp_path))
    return tmp_path


def name(program: cc.Program = adam, ranks: int = 2, **options: object) -> str:
    given = {"sizes": {"N": 1 << 20}} | options
    return cache.note_name(Request.of(program, **given), ranks)


def test_sizes_count_up_to_powers_of_two():
    assert name(sizes={"N": (1 << 21) - 1}) == name()
    assert name(sizes={"N": (1 << 20) - 1}) != name()


def test_what_changes_the_winner_changes_the_name(monkeypatch):
    names = {name(), name(sgd), name(ranks=3), name(slice_state=["m"])}
    monkeypatch.setenv("COCONET_THREADS", "3")
    names.add(name())
    monkeypatch.setattr(cache, "version", lambda _: "9.9")
    names.add(name())
    monkeypatch.setattr(cache, "_machine", lambda: ["another"])
    names.add(name())
    assert len(names) == 7


def test_programs_with_other_names_have_decisions_of_their_own():
    dp, (size,) = cc.Group("dp"), cc.dims("N")

    def scaled(given: str) -> cc.Program:
        x = cc.tensor(given, cc.f32, (size,), cc.Local(), dp)
        total = cc.all_reduce(x)
        return cc.program("scaled", inputs=[x], outputs=[total * 2.0])

    assert name(scaled("x")) == name(scaled("x"))
    assert name(scaled("x")) != name(scaled("y"))


@pytest.mark.usefixtures("folder")
def test_what_is_remembered_is_recalled():
    assert cache.recall("tuned-1.json") == b""
    cache.remember("tuned-1.json", "one")
    cache.remember("tuned-1.json", "two")
    assert cache.recall("tuned-1.json") == b"two"


def test_a_kept_file_is_private_and_whole(folder):
    write_note("note.json", b"x" * 100)
    assert (folder / "note.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["note.json"]
    with pytest.raises(CacheError, match="too long"):
        read_note("note.json", most_bytes=99)
    (folder / "link.json").symlink_to(folder / "note.json")
    with pytest.raises(CacheError, match="link"):
        read_note("link.json", most_bytes=1000)


def test_a_file_of_somebody_else_is_told_and_not_used(folder, caplog):
    path = folder / "tuned-1.json"
    path.write_text("{}")
    path.chmod(0o666)
    with caplog.at_level(logging.WARNING, "coconet"):
        assert cache.recall("tuned-1.json") == b""
    assert "written to by others" in caplog.text
    cache.remember("tuned-1.json", "mine")
    assert cache.recall("tuned-1.json") == b"mine"


def test_a_cache_that_cannot_be_written_costs_a_warning(folder, caplog, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "write_note", full)
    with caplog.at_level(logging.WARNING, "coconet"):
        cache.remember("tuned-1.json", "mine")
    assert "No space left" in caplog.text
    assert list(folder.iterdir()) == []

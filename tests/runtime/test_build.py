"""Compiling C: what is cached, what is refused, and what a fault leaves behind."""

from __future__ import annotations

import ctypes
import errno
import grp
import json
import logging
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from coconet.errors import CacheError, CompileError, NoCompiler, ResourceError
from coconet.runtime import cache
from coconet.runtime.build import FLAGS, build, find_compiler

ADD = {
    "add.c": '#include "offset.h"\nint add(int a, int b) { return a + b + OFFSET; }\n',
    "offset.h": "#define OFFSET 1\n",
}

BUILD_ONCE = f"""
import ctypes
from coconet.runtime.build import build
print(ctypes.CDLL(str(build("add", {ADD!r}))).add(2, 3))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty compile cache."""
    monkeypatch.setenv("COCONET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    cache._private_root.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Set CC to a script around the real compiler that counts its runs."""
    real = " ".join(find_compiler().argv)

    def write(before: str = "") -> Path:
        script, log = tmp_path / "mycc", tmp_path / "runs"
        script.write_text(f"#!/bin/sh\necho run >> {log}\n{before}\nexec {real} $@\n")
        script.chmod(0o700)
        monkeypatch.setenv("CC", str(script))
        log.touch()
        return log

    return write


def add(library: Path) -> int:
    return ctypes.CDLL(str(library)).add(2, 3)


def in_process(code: str = BUILD_ONCE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(cache.__file__).parents[2])},
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [x.message for x in caplog.records if x.levelno >= logging.WARNING]


def test_compiles_into_a_private_entry(folder: Path):
    library = build("add", ADD)
    assert add(library) == 6
    assert library.parent.parent == folder
    for path in (folder, library.parent, *library.parent.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    manifest = json.loads((library.parent / "manifest.json").read_text())
    assert set(manifest) == {"add.c", "offset.h", "add.so"}
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


def test_hit_does_not_compile(folder: Path, compiler: Callable[..., Path]):
    runs = compiler()
    first = build("add", ADD)
    assert runs.read_text().count("run") == 1
    assert build("add", ADD) == first
    assert runs.read_text().count("run") == 1


def test_key_covers_sources_and_compiler(folder: Path, compiler: Callable[..., Path]):
    keys = {build("add", ADD)}
    keys.add(build("add", {**ADD, "offset.h": "#define OFFSET 2\n"}))
    compiler()
    keys.add(build("add", ADD))
    compiler(before=": an updated compiler")
    keys.add(build("add", ADD))
    assert len(keys) == 4


def test_no_unsafe_floating_point_flags():
    assert "-ffp-contract=off" in FLAGS
    assert not {"-ffast-math", "-Ofast", "-fopenmp"} & set(FLAGS)


@pytest.mark.multiproc
def test_eight_processes_compile_once(folder: Path, compiler: Callable[..., Path]):
    runs = compiler(before="sleep 0.2")
    processes = [in_process() for _ in range(8)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "6\n", "")
    assert runs.read_text().count("run") == 1


@pytest.mark.multiproc
def test_killed_builder_blocks_nobody(folder: Path, compiler: Callable[..., Path]):
    runs = compiler(before="sleep 30 & echo $! >> $0.sleep; wait")
    victim = in_process()
    while "run" not in runs.read_text():
        assert victim.poll() is None
        time.sleep(0.01)
    drafts = list(folder.glob(".add-*"))
    assert len(drafts) == 1
    victim.kill()
    victim.communicate()
    script = Path(os.environ["CC"])
    kept = script.stat()
    script.write_text(script.read_text().replace("sleep 30", "true    "))
    os.utime(script, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    library = build("add", ADD)
    assert library.parent.name in drafts[0].name
    assert add(library) == 6
    assert list(folder.glob(".add-*")) == []
    for line in script.with_suffix(".sleep").read_text().split():
        try:
            os.kill(int(line), signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.multiproc
def test_waiter_says_who_compiles(
    folder: Path,
    compiler: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    runs = compiler(before="sleep 1")
    monkeypatch.setattr(cache, "PATIENCE_S", 0.1)
    other = in_process()
    while "run" not in runs.read_text():
        assert other.poll() is None
        time.sleep(0.01)
    assert add(build("add", ADD)) == 6
    other.communicate(timeout=60)
    assert f"process {other.pid} on " in warnings(caplog)[0]
    assert runs.read_text().count("run") == 1


def truncate(library: Path) -> None:
    library.write_bytes(library.read_bytes()[:-100])


def bitflip(library: Path) -> None:
    content = bytearray(library.read_bytes())
    content[len(content) // 2] ^= 4
    library.write_bytes(content)


def empty(library: Path) -> None:
    library.write_bytes(b"")


def missing(library: Path) -> None:
    library.unlink()


def link(library: Path) -> None:
    elsewhere = library.parent.parent / "elsewhere.so"
    library.rename(elsewhere)
    library.symlink_to(elsewhere)


def planted_file(library: Path) -> None:
    (library.parent / "extra.so").write_bytes(b"")


def no_manifest(library: Path) -> None:
    (library.parent / "manifest.json").unlink()


def cut_manifest(library: Path) -> None:
    (library.parent / "manifest.json").write_text('{"add.so": ')


def writable_file(library: Path) -> None:
    library.chmod(0o666)


def writable_folder(library: Path) -> None:
    library.parent.chmod(0o777)


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        bitflip,
        empty,
        missing,
        link,
        planted_file,
        no_manifest,
        cut_manifest,
        writable_file,
        writable_folder,
    ],
)
def test_bad_entry_is_set_aside_and_made_again(
    damage: Callable[[Path], None], folder: Path, caplog: pytest.LogCaptureFixture
):
    library = build("add", ADD)
    damage(library)
    assert build("add", ADD) == library
    assert add(library) == 6
    (warning,) = warnings(caplog)
    assert "is made again" in warning
    assert len(list(folder.glob("add-*.bad-*"))) == 1
    build("add", ADD)
    assert len(warnings(caplog)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_entry_of_another_user_is_not_loaded(
    folder: Path, caplog: pytest.LogCaptureFixture
):
    library = build("add", ADD)
    os.chown(library, 12345, 12345)
    assert build("add", ADD) == library
    assert library.stat().st_uid == os.geteuid()
    assert "belongs to user 12345" in warnings(caplog)[0]


def test_cache_that_others_can_write_to_is_refused(folder: Path):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(CacheError, match="not safe") as caught:
        build("add", ADD)
    assert "can be written to by others (mode 777)" in str(caught.value.got)
    assert list(folder.iterdir()) == []


def test_cache_under_a_folder_of_everybody_is_refused(folder: Path):
    folder.mkdir(mode=0o700)
    folder.parent.chmod(0o777)
    with pytest.raises(CacheError) as caught:
        build("add", ADD)
    assert str(folder.parent) in str(caught.value.got)
    folder.parent.chmod(0o1777)
    assert build("add", ADD).parent.parent == folder


def test_cache_under_a_folder_of_a_group_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    folder.mkdir(mode=0o700)
    folder.parent.chmod(0o775)
    monkeypatch.setattr(cache, "_is_own_group", lambda gid: False)
    with pytest.raises(CacheError) as caught:
        build("add", ADD)
    assert f"{folder.parent} can be written to by group" in str(caught.value.got)
    assert f"chmod g-w {folder.parent}" in caught.value.fix
    folder.parent.chmod(0o1775)
    assert build("add", ADD).parent.parent == folder
    folder.parent.chmod(0o775)
    monkeypatch.setattr(cache, "_is_own_group", lambda gid: True)
    assert build("add", ADD).parent.parent == folder


@pytest.mark.parametrize(
    ("gid", "name", "members", "is_own"),
    [
        (0, "root", ["someone"], True),
        (1234, "ada", [], True),
        (1234, "ada", ["ada"], True),
        (1234, "ada", ["ada", "eve"], False),
        (1234, "staff", [], False),
        (1234, None, [], False),
    ],
)
def test_whose_group_it_is(
    gid: int,
    name: str | None,
    members: list[str],
    is_own: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    def group(gid: int) -> SimpleNamespace:
        if name is None:
            raise KeyError(gid)
        return SimpleNamespace(gr_name=name, gr_mem=members)

    monkeypatch.setattr(grp, "getgrgid", group)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="ada"))
    cache._is_own_group.cache_clear()
    try:
        assert cache._is_own_group(gid) == is_own
    finally:
        cache._is_own_group.cache_clear()


def test_unsafe_default_cache_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.delenv("COCONET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    (folder / "coconet").mkdir(parents=True)
    (folder / "coconet").chmod(0o777)
    for _ in range(2):
        library = build("add", ADD)
        assert add(library) == 6
        assert folder not in library.parents
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EBUSY, errno.ESTALE, errno.EROFS]
)
def test_unusable_cache_falls_back_to_a_private_folder(
    code: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    rename = os.rename

    def refuse(source: str | Path, target: str | Path, **options: int) -> None:
        if folder in Path(target).parents:
            raise OSError(code, os.strerror(code), str(source))
        rename(source, target, **options)

    monkeypatch.setattr(os, "rename", refuse)
    first, second = build("add", ADD), build("add", ADD)
    assert first == second
    assert folder not in first.parents
    assert stat.S_IMODE(first.parents[1].stat().st_mode) == 0o700
    assert add(first) == 6
    (warning,) = warnings(caplog)
    assert errno.errorcode[code] in warning
    assert list(folder.glob("*/*")) == []


def test_cache_that_cannot_be_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    folder.parent.joinpath("file").touch()
    monkeypatch.setenv("COCONET_CACHE", str(folder.parent / "file" / "cache"))
    assert add(build("add", ADD)) == 6
    assert "ENOTDIR" in warnings(caplog)[0]


def test_no_place_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(ResourceError, match="no place") as caught:
        build("add", ADD)
    assert "ENOSPC" in str(caught.value.got)


@pytest.mark.multiproc
def test_private_folder_ends_with_its_process(folder: Path):
    folder.touch()
    code = BUILD_ONCE + f"print(build('add', {ADD!r}).parents[1])"
    out, err = in_process(code).communicate(timeout=60)
    value, place = out.split()
    assert value == "6"
    assert not Path(place).exists()
    assert err.count("the compile cache cannot be used") == 1


def test_no_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(NoCompiler) as caught:
        build("add", ADD)
    assert "ziglang" in caught.value.fix
    assert not folder.exists()


def test_cc_without_a_path(folder: Path, monkeypatch: pytest.MonkeyPatch):
    real = find_compiler().argv[0]
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CC", f"{real} -DEXTRA=1")
    found = find_compiler()
    assert found.argv == (real, "-DEXTRA=1")
    text = "#if EXTRA != 1\n#error no\n#endif\nint add(int a, int b) { return a + b; }"
    assert add(build("add", {"add.c": text})) == 5
    assert re.search(r"\d+\.\d+", found.version())


def test_cc_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CC", "/nowhere/cc -O1")
    with pytest.raises(NoCompiler, match="CC names") as caught:
        build("add", ADD)
    assert caught.value.got == "/nowhere/cc -O1"


def test_ziglang_wheel_is_the_last_resort(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    real = find_compiler().argv[0]
    package = tmp_path / "site" / "ziglang"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").touch()
    package.joinpath("__main__.py").write_text(
        "import subprocess, sys\n"
        "assert sys.argv[1] == 'cc' and '-fno-sanitize=undefined' in sys.argv\n"
        f"path = {os.environ['PATH']!r}\n"
        f"sys.exit(subprocess.call([{real!r}, *sys.argv[2:]], env={{'PATH': path}}))\n"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.syspath_prepend(str(package.parent))
    assert find_compiler().argv == (sys.executable, "-m", "ziglang", "cc")
    assert add(build("add", ADD)) == 6


def test_compile_error_shows_command_and_first_errors(folder: Path):
    lines = "\n".join(f"int bad{i}(void) {{ return missing{i}; }}" for i in range(40))
    with pytest.raises(CompileError, match=r"could not compile add\.so") as caught:
        build("add", {"add.c": lines})
    got = str(caught.value.got).splitlines()
    assert "-O3 -march=native" in got[0]
    assert got[0].endswith("-o add.so add.c")
    assert "missing0" in str(caught.value)
    assert "more lines" in got[-1]
    assert len(got) < 30
    assert list(folder.glob("*/")) == []


def test_compiler_that_cannot_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x00not a program")
    broken.chmod(0o700)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(CompileError, match="cannot be started"):
        build("add", ADD)
    with pytest.raises(CompileError):
        find_compiler().version()


@pytest.mark.parametrize("name", ["", "../up", "a b", "-o", "a;rm"])
def test_names_are_checked(name: str, folder: Path):
    with pytest.raises(ValueError, match="not a name"):
        build(name, ADD)
    with pytest.raises(ValueError, match="not a name"):
        build("add", {f"{name}.c": ""})

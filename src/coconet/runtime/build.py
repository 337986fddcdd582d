"""Compile C into a shared object, once per machine and compiler.

Without -fno-math-errno and -fno-trapping-math, loops with sqrt and comparisons do not
vectorise; -ffp-contract=off keeps `a*b + c` two roundings.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coconet.errors import CompileError, NoCompiler
from coconet.runtime.cache import entry
from coconet.settings import settings

__all__ = ["Compiler", "build", "find_compiler"]

FLAGS = (
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-std=c11",
    "-D_GNU_SOURCE",
    "-fPIC",
    "-shared",
    "-pthread",
    "-fvisibility=default",
    "-Wall",
    "-Wextra",
)
# zig traps on undefined behaviour unless told not to
ZIG_FLAGS = ("-fno-sanitize=undefined",)
STDERR_LINES = 20

_log = logging.getLogger("coconet")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: how to call it, and what tells it from another one.

    argv      the command and the flags that always come first
    identity  paths, sizes and times of its programs
    """

    argv: tuple[str, ...]
    identity: str

    @property
    def is_zig(self) -> bool:
        """Whether this is zig's front end to clang."""
        return "ziglang" in self.argv or Path(self.argv[0]).name == "zig"

    @property
    def command(self) -> tuple[str, ...]:
        """The command with all flags, up to the names of files."""
        return (*self.argv, *FLAGS, *(ZIG_FLAGS if self.is_zig else ()))

    def version(self) -> str:
        """Return the first line of `--version`.

        Blocks  while the compiler runs, some ms
        Raises  CompileError: it cannot be started, or says nothing
        """
        done = _run((*self.argv, "--version"), Path.cwd())
        lines = done.stdout.splitlines()
        if done.returncode or not lines:
            raise _failure("tell its version", done)
        return lines[0]


def find_compiler() -> Compiler:
    """Return the C compiler: $CC, else gcc, clang, or the ziglang wheel.

    Raises NoCompiler.
    """
    if wanted := settings().compiler:
        if shutil.which(wanted[0]) is None:
            raise NoCompiler(
                "CC names a program that is not there",
                got=shlex.join(wanted),
                need="a C compiler: a path, or a name on PATH",
                fix="unset CC, or set it to gcc or clang",
            )
        return _compiler(wanted)
    for name in ("gcc", "clang"):
        if shutil.which(name):
            return _compiler((name,))
    if (zig := importlib.util.find_spec("ziglang")) and zig.origin:
        return Compiler(
            (sys.executable, "-m", "ziglang", "cc"),
            _identity(Path(zig.origin), Path(zig.origin).with_name("zig")),
        )
    raise NoCompiler(
        "no C compiler was found",
        got="CC is not set; gcc, clang and the ziglang wheel are not there",
        need="any one of them",
        fix="pip install ziglang, or install gcc or clang",
    )


def _compiler(words: tuple[str, ...]) -> Compiler:
    """Return the compiler that a command line names; it may start with a wrapper."""
    found = [shutil.which(word) for word in words]
    programs = [Path(path) for path in found if path]
    # the compiler runs in another folder, so a relative path would not be found
    return Compiler((str(programs[0].absolute()), *words[1:]), _identity(*programs))


def _identity(*programs: Path) -> str:
    facts: list[str] = []
    for program in programs:
        if program.exists():
            about = program.stat()
            facts.append(f"{program.resolve()} {about.st_size} {about.st_mtime_ns}")
    return "; ".join(facts)


@functools.cache
def _cpu() -> str:
    """Return what -march=native depends on."""
    features = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        with cpuinfo.open() as lines:
            features = next((x for x in lines if x.startswith(("flags", "Feat"))), "")
    return platform.machine() + features


def build(name: str, sources: Mapping[str, str]) -> Path:
    """Compile C sources into one shared object and return its verified path.

    name     letters, digits, `_`, `-`; says what it is to who looks at the cache
    sources  text by file name; `.c` files are compiled, `.h` files lie beside them

    Blocks  while the compiler runs, in this process or in another one of this host
    Raises  NoCompiler
            CompileError: the message holds the command and its stderr
            CacheError: COCONET_CACHE names a folder that others could write to
            ResourceError: there is no place to write to
    """
    _check_names(name, sources)
    compiler = find_compiler()
    facts = [name, sorted(sources.items()), compiler.command, compiler.identity, _cpu()]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    library = f"{name}.so"

    def make(folder: Path) -> None:
        _compile(compiler, library, sources, folder)

    return entry(f"{name}-{key[:32]}", make) / library


def _check_names(name: str, sources: Mapping[str, str]) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name):
        raise ValueError(f"not a name for a library: {name!r}")
    for file in sources:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*\.[ch]", file):
            raise ValueError(f"not a name for a C source: {file!r}")


def _compile(
    compiler: Compiler, library: str, sources: Mapping[str, str], folder: Path
) -> None:
    for file, text in sources.items():
        (folder / file).write_text(text)
    units = sorted(file for file in sources if file.endswith(".c"))
    began = time.perf_counter()
    done = _run((*compiler.command, "-o", library, *units), folder)
    if done.returncode or not (folder / library).exists():
        _require_space(folder)
        raise _failure(f"compile {library}", done)
    _log.debug("compiled %s in %.2f s", library, time.perf_counter() - began)


def _require_space(folder: Path) -> None:
    """Raise the OSError that a compiler reports only in words: full disk, or quota."""
    probe = folder / "probe"
    probe.write_bytes(os.urandom(1 << 20))
    probe.unlink()


def _run(argv: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CompileError(
            "the C compiler cannot be started",
            got=f"{shlex.join(argv)}: {error.strerror}",
            fix="set CC to a compiler that works",
        ) from None


def _failure(what: str, done: subprocess.CompletedProcess[str]) -> CompileError:
    argv: list[str] = list(done.args)
    said = done.stderr.strip().splitlines() or ["it said nothing"]
    if len(said) > STDERR_LINES:
        said[STDERR_LINES:] = [f"... and {len(said) - STDERR_LINES} more lines"]
    return CompileError(
        f"{Path(argv[0]).name} could not {what} (exit code {done.returncode})",
        got="\n        ".join([shlex.join(argv), *said]),
    )

"""Programs read from the text that they print as."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

from coconet.dsl.expression import elided, read_groups, read_layout, read_tensor
from coconet.dsl.source import reading
from coconet.dsl.tensor import Tensor, scalar, tensor
from coconet.dsl.trace import check_outputs
from coconet.errors import ProgramError
from coconet.ir import (
    DTYPES,
    Dim,
    DType,
    Extent,
    Fusion,
    Group,
    Location,
    Program,
    Value,
    needed_by,
)
from coconet.ir.names import default_names, is_name, spelled_out
from coconet.ir.verify import verify_program
from coconet.ops import Input, Update

__all__ = ["MAX_CHARACTERS", "read_program"]

MAX_CHARACTERS = 1 << 22
"""A program of some ten thousand values; more is refused before it is read."""

_CODE = re.compile(r"""(?:[^#'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*""")


def read_program(text: str, *, file: str = "<text>") -> Program:
    """Return the program that prints as this text.

    file  what messages and lines of source call the text

    Its kernels are not checked: whether they are legal is for a schedule to say.
    Raises ProgramError, with file and line, where the text is wrong.
    """
    if len(text) > MAX_CHARACTERS:
        raise ProgramError(
            "the text is too long to be a program",
            got=f"{len(text)} characters",
            need=f"at most {MAX_CHARACTERS}",
            at=file,
        )
    reader, number = _Reader(), 1
    for number, line in enumerate(text.splitlines(), start=1):
        with _at(Location(file, number)):
            reader.read(line)
    with _at(Location(file, number)):
        return reader.finish()


@contextmanager
def _at(line: Location) -> Generator[None]:
    """Let values be made by this line, and errors name it."""
    with reading(line):
        try:
            yield
        except ProgramError as error:
            error.at = error.at or str(line)
            raise
        except (TypeError, ValueError) as error:
            raise ProgramError(
                "this line is not legal", got=error, at=str(line)
            ) from error


class _Reader:
    """Takes the lines of a program, one after the other."""

    def __init__(self) -> None:
        self.name = ""
        self.groups: tuple[Group, ...] = ()
        self.known: dict[str, Tensor] = {}
        self.statements: list[Value] = []
        self.kernels: dict[str, list[Value]] = {}
        self.kernel: list[Value] | None = None
        self.outputs: list[Value] = []
        self.unnamed: str | None = None
        self.indent = self.kernel_indent = 0

    def read(self, line: str) -> None:
        """Take one line; empty ones and comments say nothing."""
        code = _without_comment(line)
        words = code.strip()
        if not words:
            return
        self.indent = len(code) - len(code.lstrip())
        if self.indent <= self.kernel_indent:
            self.kernel = None
        for pattern, take in _LINES if self.name else _FIRST_LINE:
            if found := re.fullmatch(pattern, words):
                take(self, *found.groups())
                return
        raise ProgramError(
            "a program has no such line",
            got=elided(words),
            need="x f32[N] Local; s f64 scalar; y = ..; fused k:; return y"
            if self.name
            else "program k on Group('dp')",
        )

    def start(self, name: str, groups: str | None) -> None:
        """Take `program NAME on GROUPS`."""
        self.name = _checked(name)
        self.groups = read_groups(groups) if groups else ()

    def declare(
        self, name: str, dtype: str, shape: str, layout: str, group: str | None
    ) -> None:
        """Take `NAME DTYPE[SHAPE] LAYOUT`, with `on GROUP` if there are several."""
        groups = read_groups(group) if group else self.groups
        if len(groups) != 1:
            raise ProgramError(
                f"{name!r} is declared on {len(groups)} groups",
                got=groups,
                need=f"{dtype}[{shape}] {layout} on Group(..)",
            )
        extents = tuple(_extent(word.strip()) for word in shape.split(",") if word)
        made = tensor(name, _dtype(dtype), extents, read_layout(layout), groups[0])
        self._add(name, made)

    def declare_scalar(self, name: str, dtype: str) -> None:
        """Take `NAME DTYPE scalar`."""
        self._add(name, scalar(name, _dtype(dtype)))

    def compute(self, name: str, expression: str) -> None:
        """Take `NAME = EXPRESSION`, in a kernel if one is open."""
        _checked(name)
        made = read_tensor(expression, self.known).value
        if made.name:
            raise ProgramError(
                f"{name!r} is {made.name!r} itself",
                got=elided(expression),
                need="an operation",
                fix=f"read {made.name} instead",
            )
        value = replace(made, name=name)
        self._add(name, Tensor(value))
        self.statements.append(value)
        if self.kernel is not None:
            self.kernel += (x for x in _computed_by(value) if not x.type.is_scalar)

    def open_kernel(self, name: str) -> None:
        """Take `fused NAME:`; what is indented below it is one kernel."""
        if name in self.kernels:
            raise ProgramError(
                f"kernel {name!r} is there already", got=name, need="a name of its own"
            )
        self.kernel = self.kernels[name] = []
        self.kernel_indent = self.indent

    def finish_with(self, names: str) -> None:
        """Take `return NAME, NAME`."""
        if self.outputs:
            raise ProgramError("a program returns once", got=elided(names))
        for name in (word.strip() for word in names.split(",")):
            if name not in self.known:
                raise ProgramError(
                    "there is no such value", got=elided(name), need="a name above"
                )
            self.outputs.append(self.known[name].value)

    def name_the_rest(self, names: str) -> None:
        """Take `unnamed NAME, _1.._9`: what is printed where it is read, in order."""
        if self.unnamed is not None:
            raise ProgramError("names are given once", got=elided(names))
        self.unnamed = names

    def _add(self, name: str, made: Tensor) -> None:
        if name in self.known:
            raise ProgramError(
                f"{name!r} is there already", got=name, need="a name of its own"
            )
        self.known[name] = made

    def finish(self) -> Program:
        """Return the program; raises ProgramError if it is not whole."""
        if not self.name:
            raise ProgramError("the text is empty", need="program k on Group('dp')")
        inputs = [t.value for t in self.known.values() if isinstance(t.value.op, Input)]
        read = {x for value in needed_by(self.statements) for x in value.inputs}
        roots = [v for v in self.statements if v not in read or self._is_end(v)]
        computed = [v for v in needed_by(roots) if not isinstance(v.op, Input)]
        effects = [value for value in computed if isinstance(value.op, Update)]
        check_outputs(self.name, [*self.outputs, *effects], computed)
        named = self._named(computed)
        members = {name: {named[v] for v in k} for name, k in self.kernels.items()}
        values = tuple(named[v] for v in needed_by(self.statements) if v in named)
        program = Program(
            name=self.name,
            inputs=tuple(sorted(inputs, key=lambda value: value.type.is_scalar)),
            values=values,
            outputs=tuple(named[value] for value in self.outputs),
            effects=tuple(named[value] for value in effects),
            fusions=tuple(
                Fusion(name, tuple(v for v in values if v in inside))
                for name, inside in members.items()
            ),
        )
        verify_program(program)
        return program

    def _is_end(self, value: Value) -> bool:
        return value in self.outputs or isinstance(value.op, Update)

    def _named(self, computed: list[Value]) -> dict[Value, Value]:
        """Return what each value is called once all have a name."""
        given = [value.name for value in computed]
        names = default_names(given)
        if self.unnamed is not None:
            rest = list(islice(spelled_out(self.unnamed), len(given) + 1))
            new = {*rest} - {*given, *self.known}
            if not len(rest) == len(new) == given.count("") or not all(
                map(is_name, new)
            ):
                raise ProgramError(
                    "the unnamed values are not these",
                    got=elided(self.unnamed),
                    need=f"{given.count('')} names that no other value has",
                )
            following = iter(rest)
            names = [name or next(following) for name in given]
        named: dict[Value, Value] = {}
        for value, name in zip(computed, names, strict=True):
            sources = tuple(named.get(source, source) for source in value.inputs)
            named[value] = replace(value, name=name, inputs=sources)
        return named


Lines = tuple[tuple[str, Callable[..., None]], ...]

_FIRST_LINE: Lines = ((r"program (\w+)(?: on (.+))?", _Reader.start),)
_LINES: Lines = (
    (r"(\S+) = (.+)", _Reader.compute),
    (r"(\S+) +(\w+)\[(.*?)\] (.+?)(?: on (.+))?", _Reader.declare),
    (r"(\S+) +(\w+) scalar", _Reader.declare_scalar),
    (r"fused (\w+):", _Reader.open_kernel),
    (r"return (.+)", _Reader.finish_with),
    (r"unnamed (.+)", _Reader.name_the_rest),
)
"""The forms of lines, and who takes what they hold."""


def _without_comment(line: str) -> str:
    found = _CODE.match(line)
    code = found[0] if found else ""
    if code != line and not line.startswith("#", len(code)):
        raise ProgramError(
            "a quote is not closed", got=elided(line.strip()), need="'..'"
        )
    return code


def _computed_by(value: Value) -> Iterator[Value]:
    """Yield a value, and all those without a name that its expression computes."""
    yield value
    for source in value.inputs:
        if not source.name:
            yield from _computed_by(source)


def _checked(name: str) -> str:
    if not is_name(name):
        raise ProgramError("this is no name", got=elided(name), need="an identifier")
    return name


def _dtype(name: str) -> DType:
    if name not in DTYPES:
        raise ProgramError("there is no such dtype", got=name, need=", ".join(DTYPES))
    return DTYPES[name]


def _extent(word: str) -> Extent:
    return int(word) if word.isdecimal() else Dim(word)

"""Rebuilding a program with some values replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from coconet.errors import InternalError
from coconet.ir.program import Fusion, Program
from coconet.ir.value import Operation, Value

__all__ = ["Moved", "Rewrite", "Rewriter"]

Moved = Mapping[Value, tuple[Value, ...]]
"""For each value that changed: what stands for it now; empty if nothing does."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewritten program, and where the values of the old one went.

    made is what a transformation hands to the user, by its own order.
    """

    program: Program
    moved: Moved
    made: tuple[tuple[Value, ...], ...] = ()


class Rewriter:
    """Collects replacements, then builds the new program in a valid order.

    Values made by `new` may read values of the old program: they read whatever those
    became.  Types are inferred again wherever an input changed.
    """

    def __init__(self, program: Program, *, made_by: str) -> None:
        """Start from a program; `made_by` marks what this rewrite creates."""
        self._old = program
        self._made_by = made_by
        self._names = {value.name for value in (*program.inputs, *program.values)}
        self._replaced: dict[Value, Value] = {}
        self._dropped: dict[Value, tuple[Value, ...]] = {}
        self._built: dict[Value, Value] = {}
        self._order: dict[Value, None] = {}

    def new(self, op: Operation, *inputs: Value, name: str, like: Value) -> Value:
        """Make a value of this name (made unique), at the source line of `like`."""
        return Value(
            op=op,
            inputs=inputs,
            type=op.infer(*(value.type for value in inputs)),
            name=self.fresh(name),
            loc=like.loc,
            made_by=self._made_by,
        )

    def fresh(self, name: str) -> str:
        """Return this name, or it with the first free number, and reserve it."""
        number, candidate = 1, name
        while candidate in self._names:
            number += 1
            candidate = f"{name}_{number}"
        self._names.add(candidate)
        return candidate

    def free(self, value: Value) -> None:
        """Let the name of a value that is replaced be used again."""
        self._names.discard(value.name)

    def replace(self, old: Value, new: Value) -> None:
        """Let everything that reads `old` read `new`."""
        self._replaced[old] = new

    def drop(self, value: Value, *instead: Value) -> None:
        """Leave out a value that nothing reads; handles to it go to `instead`."""
        self._dropped.update({value: instead})

    def finish(
        self,
        made: tuple[tuple[Value, ...], ...] = (),
        fusions: Iterable[Fusion] | None = None,
    ) -> Rewrite:
        """Build the new program.

        `made` and the members of `fusions` (which replace the old program's) may be old
        or new values.
        """
        old = self._old
        inputs = tuple(self._build(value) for value in old.inputs)
        for value in old.values:
            if value not in self._dropped:
                self._build(value)
        for value in (v for part in made for v in part):
            self._build(value)
        for value in (*inputs, *self._dropped):
            self._order.pop(value, None)
        program = Program(
            name=old.name,
            inputs=inputs,
            values=tuple(self._order),
            outputs=tuple(self._build(value) for value in old.outputs),
            effects=tuple(self._build(value) for value in old.effects),
            fusions=self._fusions(old.fusions if fusions is None else fusions),
        )
        moved: dict[Value, tuple[Value, ...]] = {
            o: (n,) for o, n in self._built.items() if o is not n
        }
        for value, instead in self._dropped.items():
            moved[value] = tuple(self._build(other) for other in instead)
        handed = tuple(tuple(self._build(v) for v in part) for part in made)
        return Rewrite(program, moved, handed)

    def _build(self, value: Value) -> Value:
        """Return what stands for a value now; what that reads is built before it."""
        stack = [value]
        while stack:
            old = stack[-1]
            if old in self._dropped:
                raise InternalError(f"{old} was dropped and is still read")
            instead = self._replaced.get(old)
            sources = (instead,) if instead else old.inputs
            missing = [source for source in sources if source not in self._built]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if old not in self._built:
                made = self._built[instead] if instead else self._with_built_inputs(old)
                self._built[old] = made
                self._order[made] = None
        return self._built[value]

    def _with_built_inputs(self, value: Value) -> Value:
        inputs = tuple(self._built[source] for source in value.inputs)
        if all(a is b for a, b in zip(inputs, value.inputs, strict=True)):
            return value
        type_ = value.op.infer(*(source.type for source in inputs))
        return replace(value, inputs=inputs, type=type_)

    def _fusions(self, fusions: Iterable[Fusion]) -> tuple[Fusion, ...]:
        rebuilt: list[Fusion] = []
        for fusion in fusions:
            kept = [v for v in fusion.members if v not in self._dropped]
            members = {self._built[value] for value in kept} & set(self._order)
            if members:
                ordered = tuple(value for value in self._order if value in members)
                rebuilt.append(Fusion(fusion.name, ordered))
        return tuple(rebuilt)

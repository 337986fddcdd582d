"""The Before and After of every transformation are programs: run both, compare.

And the comparison sees: with any operand of After exchanged, it finds a difference.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import linecache
import re
import textwrap
from collections.abc import Callable

import pytest

import coconet as cc
from coconet.ir import Program
from coconet.schedule import TRANSFORMS, Dead, Fuse, Reorder, SliceState, Split
from coconet.schedule.legality import ancestors

DP = cc.Group("dp")
(N,) = cc.dims("N")
SIZES = ({"N": 1}, {"N": 65}, {"N": 200})
FUNCTIONS = {name: getattr(cc, name) for name in cc.__all__}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the names in a docstring mean, and the step from Before to After."""

    step: object
    inputs: dict[str, cc.ir.Layout]
    outputs: tuple[str, ...]


SETTINGS = {
    Split: Setting(Split("s"), {"x": cc.Local()}, ("s",)),
    Reorder: Setting(
        Reorder("s", ("m1", "y")),
        {"x": cc.Sliced(cc.FLAT), "m": cc.Replicated()},
        ("m1", "y"),
    ),
    Fuse: Setting(
        Fuse(("a", "b")), {"x": cc.Replicated(), "r": cc.Replicated()}, ("b",)
    ),
    SliceState: Setting(
        SliceState("m"), {"x": cc.Sliced(cc.FLAT), "m": cc.Replicated()}, ("m1",)
    ),
    Dead: Setting(Dead("s"), {"x": cc.Sliced(cc.FLAT)}, ("y",)),
}
CLASSES = [pytest.param(t, id=t.name) for t in TRANSFORMS]


def block(transform: type, title: str) -> str:
    """The indented lines below a title of the docstring."""
    text = inspect.getdoc(transform) or ""
    found = re.search(rf"^{title}\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    assert found, f"{transform.__name__} has no {title}"
    return textwrap.dedent(found[1]).strip() + "\n"


_numbers = itertools.count()


def traced(setting: Setting, text: str) -> Program:
    """Run a block as the user would have written it; nothing computed is left out."""
    names: dict[str, object] = {
        name: cc.tensor(name, cc.f32, (N,), layout, DP)
        for name, layout in setting.inputs.items()
    }
    declared = dict(names)

    def sliced(x: cc.Tensor, cut: object) -> cc.Tensor:
        layout = cc.Sliced(cut)
        declared[x.name] = cc.tensor(x.name, cc.f32, (N,), layout, DP)
        return declared[x.name]

    filename = f"<block {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), FUNCTIONS | {"sliced": sliced}, names)
    made = [value for name, value in names.items() if name not in setting.inputs]
    needed = ancestors(value.value for value in made)
    inputs = [x for x in declared.values() if x.value in needed]
    program = cc.program("k", inputs=inputs, outputs=made)
    outputs = tuple(
        program.handles[names[name].value]
        for name in setting.outputs
        if program.handles[names[name].value] not in program.effects
    )
    return dataclasses.replace(program, outputs=outputs)


def statements(program: Program) -> dict[str, str]:
    lines = str(program).splitlines()
    pairs = (line.split("#")[0].split(" = ", 1) for line in lines if " = " in line)
    return {name.strip(): text.strip() for name, text in pairs}


def is_equal(compare: Callable, before: Program, after: Program) -> bool:
    return all(
        compare(before, after, ranks, sizes, seed=seed) is None
        for ranks in (1, 2, 3, 4)
        for seed, sizes in enumerate(SIZES)
    )


def test_every_transformation_has_a_setting():
    assert SETTINGS.keys() == set(TRANSFORMS)
    names = [transform.name for transform in TRANSFORMS]
    assert len(set(names)) == len(names)
    assert all(hasattr(cc.Draft, name) for name in names)


@pytest.mark.parametrize("transform", CLASSES)
def test_before_and_after_are_equal(transform, schedule_difference):
    setting = SETTINGS[transform]
    before = traced(setting, block(transform, "Before"))
    after = traced(setting, block(transform, "After"))
    assert is_equal(schedule_difference, before, after)


@pytest.mark.parametrize("transform", CLASSES)
def test_the_step_makes_after_of_before(transform):
    setting = SETTINGS[transform]
    draft = traced(setting, block(transform, "Before")).schedule()
    draft.step(setting.step)
    draft.dead(*(v for v in draft.program.values if not draft.program.is_live(v)))
    after = block(transform, "After")
    assert statements(draft.program) == statements(traced(setting, after))
    kernels = [
        ", ".join(member.name for member in fusion.members if "_" not in member.name)
        for fusion in draft.program.fusions
    ]
    assert kernels == re.findall(r"# fused: (.*)", after)


def operands(tree: ast.Module) -> list[ast.Name]:
    """Every place in a block where a value is read; a declaration reads nothing."""
    found: list[ast.Name] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_sliced = ast.unparse(node.func) == "sliced"
            found += [a for a in node.args if isinstance(a, ast.Name) and not is_sliced]
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            found += [side for side in sides if isinstance(side, ast.Name)]
    return [operand for operand in found if operand.id not in FUNCTIONS]


def effects(program: Program) -> set[str]:
    return {update.inputs[0].name for update in program.effects}


@pytest.mark.parametrize("transform", CLASSES)
def test_an_exchanged_operand_is_noticed(transform, schedule_difference):
    setting = SETTINGS[transform]
    before = traced(setting, block(transform, "Before"))
    text = block(transform, "After")
    whole = traced(setting, text)
    count = len(operands(ast.parse(text)))
    assert count >= 1
    for place in range(count):
        tree = ast.parse(text)
        operand = operands(tree)[place]
        layout = whole[operand.id].type.layout
        operand.id = "z"
        wider = dataclasses.replace(setting, inputs=setting.inputs | {"z": layout})
        mutant = traced(wider, ast.unparse(tree) + "\n")
        differs = effects(mutant) != effects(before)
        assert differs or not is_equal(schedule_difference, before, mutant), str(mutant)

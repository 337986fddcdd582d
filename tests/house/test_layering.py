"""Imports go down only.  These tables are the architecture: change them on purpose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import pytest

SURFACE = "coconet"  # `import coconet`: the public names, as a user sees them

BELOW_API = {
    *("errors", "options", "settings", "ir", "plan", "ops", "dsl", "schedule", "lower"),
    *("interp", "cost", "runtime", "backends", "verification", "tuning", "torch"),
    *("workloads", "viz"),
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "options": set(),
    "settings": {"errors"},
    "ir": {"errors"},
    "plan": {"errors", "ir"},
    "ops": {"errors", "options", "ir", "plan"},
    "dsl": {"errors", "ir", "ops"},
    "schedule": {"errors", "ir", "ops", "dsl"},
    "lower": {"errors", "ir", "plan", "ops", "schedule"},
    "interp": {"errors", "ir", "plan", "ops"},
    "cost": {"errors", "ir", "plan", "ops"},
    "runtime": {"errors", "options", "settings"},
    "backends": {"errors", "options", "settings", "ir", "plan", "runtime"},
    "backends/eager": {"errors", "settings", "ir", "plan", "runtime", "ops"},
    "backends/interpreter": {"errors", "settings", "ir", "interp"},
    "verification": {
        *("errors", "options", "ir", "ops", "schedule", "lower", "interp", "runtime"),
        "backends",
    },
    "tuning": BELOW_API - {"dsl", "tuning", "torch", "workloads", "viz"},
    "torch": BELOW_API - {"plan", "interp", "cost", "torch", "workloads", "viz"},
    "workloads": {"dsl", "ops", "schedule", SURFACE},
    "viz": {"ir", "plan", "schedule", "cost", "tuning"},
    "api": BELOW_API,
    "bench": BELOW_API | {"api", SURFACE},
    "demo": BELOW_API | {"api", "bench", SURFACE},
    "cli": BELOW_API | {"api", "bench", "demo", SURFACE},
    "__init__": BELOW_API | {"api"},
    "__main__": {"cli"},
}
# Methods of Program and Draft hand over to what lies above, found when they are called.
LAZILY = {"ir": {"api", "schedule"}, "dsl": {"api"}, "schedule": {"api"}}

# Libraries that only some parts may know.
KNOWN_TO: dict[str, set[str]] = {
    "torch": {"torch", "backends/eager", "bench", "cli", "demo"},
    "triton": {"backends/triton"},
    "typer": {"cli"},
    "rich": {"bench", "cli", "viz"},
    "jinja2": {"cli", "demo", "viz"},
}
# The C backend meets torch only when a user passes tensors, so torch is there.
KNOWN_LAZILY = {"backends": {"torch"}, "backends/c": {"torch"}}


class Import(NamedTuple):
    module: str
    line: int
    is_lazy: bool


def imports(node: ast.AST, *, is_lazy: bool = False) -> Iterator[Import]:
    """Every import in a file; lazy: in a function, or for the type checker only."""
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(alias.name, node.lineno, is_lazy)
        case ast.ImportFrom(module=module, names=names):
            for alias in names:
                yield Import(f"{module}.{alias.name}", node.lineno, is_lazy)
        case (
            ast.FunctionDef()
            | ast.AsyncFunctionDef()
            | ast.If(test=ast.Name(id="TYPE_CHECKING"))
        ):
            for child in ast.iter_child_nodes(node):
                yield from imports(child, is_lazy=True)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from imports(child, is_lazy=is_lazy)


def part_imported(module: str) -> str | None:
    """The part of coconet that `module` names, or None if it is not ours."""
    head, _, rest = module.partition(".")
    if head != "coconet":
        return None
    part = rest.split(".")[0]
    return part if part in MAY_IMPORT else SURFACE


def key_of(name: str) -> str:
    """The row of a table for a file: its part, or part/sub where that has its own."""
    deep = "/".join(name.split("/")[:2])
    known = MAY_IMPORT.keys() | KNOWN_LAZILY.keys() | set().union(*KNOWN_TO.values())
    return deep if deep in known else name.split("/")[0].removesuffix(".py")


def wrong_imports(name: str, tree: ast.Module) -> Iterator[str]:
    key = key_of(name)
    part = key.split("/")[0]
    allowed = MAY_IMPORT.get(key, MAY_IMPORT[part]) | {part}
    for module, line, is_lazy in imports(tree):
        other = part_imported(module)
        extra = LAZILY.get(part, set()) if is_lazy else set()
        if other and other not in allowed | extra:
            yield f"{name}:{line} imports coconet.{other}"
        library = module.split(".")[0]
        late = KNOWN_LAZILY.get(key, set()) if is_lazy else set()
        if key not in KNOWN_TO.get(library, {key}) and library not in late:
            yield f"{name}:{line} imports {library}"


def test_every_part_has_a_row(sources):
    unknown = {source.part for source in sources} - MAY_IMPORT.keys()
    assert not unknown, f"no row in MAY_IMPORT for {sorted(unknown)}"


def test_imports_go_down_only(sources):
    wrong = [w for source in sources for w in wrong_imports(source.name, source.tree)]
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_cycle():
    order: list[str] = []
    parts = {key: set(row) - {SURFACE} for key, row in MAY_IMPORT.items()}
    while ready := [k for k in parts if k not in order and parts[k] <= set(order)]:
        order += ready
    assert sorted(order) == sorted(parts)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("ir/value.py", "from coconet.ops import Add", "imports coconet.ops"),
        ("ir/value.py", "def f():\n  import coconet.plan.text", "imports coconet.plan"),
        ("ir/value.py", "from coconet import tensor", "imports coconet.coconet"),
        ("ir/value.py", "import torch", "imports torch"),
        ("ir/program.py", "from coconet.api import tune", "imports coconet.api"),
        ("backends/c/bound.py", "import torch", "imports torch"),
        ("schedule/draft.py", "from coconet.api import tune", "imports coconet.api"),
        ("backends/c/run.py", "from coconet.ops import Add", "imports coconet.ops"),
    ],
)
def test_a_wrong_import_is_found(name, text, found):
    (wrong,) = wrong_imports(name, ast.parse(text))
    assert found in wrong


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("schedule/draft.py", "def f():\n  from coconet.api import tune"),
        ("backends/eager/run.py", "from coconet.ops import Add\nimport torch"),
        ("backends/c/bound.py", "def f():\n  import torch"),
        ("ir/program.py", "if TYPE_CHECKING:\n  from coconet.schedule import Draft"),
        ("workloads/optimizers.py", "import coconet as cc"),
    ],
)
def test_a_right_import_passes(name, text):
    assert not list(wrong_imports(name, ast.parse(text)))

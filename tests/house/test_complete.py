"""Every op says everything; every transformation shows what it does."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from coconet.backends.eager.table import CALLS
from coconet.ops import OPS, Input, Literal
from coconet.ops.op import Op
from coconet.schedule import TRANSFORMS, Transform

ROOT = Path(__file__).parents[2]
PARTS = ("infer", "reference", "work", "lower", "text")
COMPUTED = [op for op in OPS if op not in (Input, Literal)]


def classes_in(folder: str, base: type) -> set[str]:
    """Names of the classes of this base that the part's files define."""
    return {
        node.name
        for path in (ROOT / "src/coconet" / folder).glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and base.__name__ in {ast.unparse(b) for b in node.bases}
    }


def test_tables_list_every_class():
    assert {op.__name__ for op in OPS} == classes_in("ops", Op)
    assert {t.__name__ for t in TRANSFORMS} == classes_in("schedule", Transform)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
def test_ops_have_every_part_in_one_order(op):
    own = [name for name in vars(op) if name in PARTS]
    assert own == list(PARTS)
    assert op.__dataclass_params__.frozen


@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.__name__)
def test_ops_are_documented_and_have_an_eager_entry(op):
    doc = inspect.cleandoc(op.__doc__ or "")
    for field in ("Layout", "Raises"):
        assert field in doc, f"{op.__name__} lacks {field}"
    assert op in CALLS


@pytest.mark.parametrize("step", TRANSFORMS, ids=lambda step: step.__name__)
def test_transformations_are_documented_and_tested(step):
    doc = inspect.cleandoc(step.__doc__ or "")
    fields = ("Before", "After", "Legal when", "Keeps", "Returns", "Raises", "Source")
    places = [doc.index(field) for field in fields]
    assert places == sorted(places)
    assert any(step.name in body or step.__name__ in body for body in refused())


def refused() -> list[str]:
    """What tests/schedule runs inside `with pytest.raises(..)`."""
    return [
        ast.unparse(node)
        for path in (ROOT / "tests/schedule").glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.With) and "pytest.raises" in ast.unparse(node.items[0])
    ]

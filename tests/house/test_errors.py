"""Every error is in the tree, in docs/errors.md, and raised by a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import coconet.errors as errors
from coconet.errors import CoconetError

CLASSES = {name: getattr(errors, name) for name in errors.__all__}
FAMILIES = {c.__base__.__name__ for c in CLASSES.values()} & CLASSES.keys()


def tree_in_docstring() -> Iterator[tuple[str, str | None]]:
    """(class, base) for each line of the tree at the top of errors.py."""
    bases: dict[int, str] = {-2: "Exception"}
    for line in (errors.__doc__ or "").splitlines()[2:]:
        if found := re.match(r"( *)([A-Z]\w+)\b", line):
            indent, name = len(found[1]), found[2]
            bases[indent] = name
            yield name, bases[indent - 2]


def words_of_checks(path: Path) -> Iterator[str]:
    """Words inside a file's asserts, pytest.raises(..) calls, and what it catches.

    Programs that tests run in other processes catch an error and report it.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        is_raises = isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            "pytest.raises"
        )
        if is_raises or isinstance(node, ast.Assert):
            yield from re.findall(r"\w+", ast.unparse(node))
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            yield from re.findall(r"\w+", ast.unparse(node.type))


def test_the_docstring_shows_the_real_tree():
    real = {name: cls.__base__.__name__ for name, cls in CLASSES.items()}
    assert dict(tree_in_docstring()) == real


def test_all_lists_every_class():
    classes = {n for n, v in vars(errors).items() if isinstance(v, type)}
    assert classes == CLASSES.keys()
    assert all(issubclass(c, CoconetError) for c in CLASSES.values())


def test_docs_have_one_entry_per_class(root):
    text = (root / "docs" / "errors.md").read_text()
    entries = re.findall(r"^#{2,3} (\w+)$", text, re.MULTILINE)
    assert sorted(entries) == sorted(CLASSES)


def test_every_class_is_raised_by_a_test(root):
    files = (root / "tests").rglob("*.py")
    checked = {
        word
        for path in files
        if path.parent.name != "house"
        for word in words_of_checks(path)
    }
    raised = (CLASSES.keys() - FAMILIES) & checked
    missing = CLASSES.keys() - FAMILIES - raised
    assert not missing, f"no test raises {sorted(missing)}"


def test_text_is_made_of_the_fields():
    error = errors.LayoutError(
        "wrong layout", got="R", need="L", fix="slice_(x)", at="a.py:3"
    )
    assert str(error) == (
        "wrong layout  (a.py:3)\n  got:  R\n  need: L\n  try:  slice_(x)"
    )
    assert str(errors.PeerFailed("rank 1 died", ranks=(1,))) == "rank 1 died"

"""Docstrings and documents, beyond what ruff's D1 sees."""

from __future__ import annotations

import ast
import re

DEFINITIONS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_docstrings_begin_with_one_sentence(sources):
    wrong = [
        f"{source.name}:{getattr(node, 'lineno', 1)} {first!r}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, DEFINITIONS)
        and (text := ast.get_docstring(node)) is not None
        and not (first := text.partition("\n\n")[0]).endswith((".", "?", ":"))
    ]
    assert not wrong, "\n".join(wrong)


def test_annotations_are_never_evaluated(sources):
    future = "from __future__ import annotations"
    annotated = ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign
    wrong = [
        source.name
        for source in sources
        if future not in source.text
        and any(isinstance(node, annotated) for node in ast.walk(source.tree))
    ]
    assert not wrong


def test_links_between_documents_lead_somewhere(root):
    documents = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    broken = [
        f"{path.relative_to(root)}: {target}"
        for path in documents
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert not broken, "\n".join(broken)


def test_paths_named_in_documents_exist(root):
    documents = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    broken = [
        f"{path.relative_to(root)}: {target}"
        for path in documents
        for target in re.findall(
            r"`((?:src|tests|docs)/[\w./-]*\w)/?`", path.read_text()
        )
        if not (root / target).exists()
    ]
    assert not broken, "\n".join(broken)

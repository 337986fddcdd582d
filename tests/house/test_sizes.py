"""Files, functions and the whole stay small enough to read.

Raising BUDGET is a commit of its own.
"""

from __future__ import annotations

import ast

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
BUDGET = 29_500


def test_files_are_short_and_the_sum_is_in_budget(root):
    files = [p for p in (root / "src").rglob("*") if p.suffix in {".py", ".c", ".h"}]
    lines = {path: len(path.read_text().splitlines()) for path in files}
    tests = {p: len(p.read_text().splitlines()) for p in (root / "tests").rglob("*.py")}
    long = [f"{p}: {n}" for p, n in (lines | tests).items() if n > MAX_FILE_LINES]
    assert not long, "\n".join(long)
    assert sum(lines.values()) <= BUDGET


def test_functions_are_short(sources):
    long = [
        f"{source.name}:{node.lineno} {node.name}: {length} lines"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)

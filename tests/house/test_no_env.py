"""Only settings.py reads the environment; the launcher builds that of its children."""

from __future__ import annotations

import ast

ALLOWED = {"settings.py", "runtime/launch.py", "runtime/child.py"}
NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def touches_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in NAMES
        case ast.ImportFrom(module="os", names=aliases):
            return any(alias.name in NAMES for alias in aliases)
    return False


def test_the_environment_is_read_in_one_place(sources):
    wrong = [
        f"{source.name}:{node.lineno}"
        for source in sources
        if source.name not in ALLOWED
        for node in ast.walk(source.tree)
        if touches_environment(node)
    ]
    assert not wrong, "\n".join(wrong)

"""Nothing in src runs code that it read, starts a shell, or forks."""

from __future__ import annotations

import ast

import pytest

MODULES = {
    *("cloudpickle", "dill", "diskcache", "joblib", "marshal", "multiprocessing"),
    *("pickle", "shelve"),
}
BUILTINS = {"eval", "exec", "__import__"}
CALLS = {
    *("os.fork", "os.forkpty", "os.popen", "os.system", "pty.fork"),
    *("subprocess.getoutput", "subprocess.getstatusoutput"),
    *("torch.load", "torch.save"),
}
TRUE_KEYWORDS = {"allow_pickle", "shell"}


def banned(node: ast.AST) -> str | None:
    """What is wrong with one node, or None."""
    match node:
        case ast.Import(names=aliases):
            bad = {alias.name.split(".")[0] for alias in aliases} & MODULES
            return f"import {min(bad)}" if bad else None
        case ast.ImportFrom(module=str(module), names=aliases):
            bad = CALLS & {f"{module}.{alias.name}" for alias in aliases}
            bad |= {module.split(".")[0]} & MODULES
            return f"import {min(bad)}" if bad else None
        case ast.Name(id=name) if name in BUILTINS:
            return name
        case ast.Attribute() if (name := ast.unparse(node)) in CALLS:
            return name
        case ast.keyword(arg=name) if name in TRUE_KEYWORDS:
            is_false = isinstance(node.value, ast.Constant) and not node.value.value
            return None if is_false else f"{name}={ast.unparse(node.value)}"
    return None


def test_src_is_clean(sources):
    wrong = [
        f"{source.name}: {found}"
        for source in sources
        for node in ast.walk(source.tree)
        if (found := banned(node))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from multiprocessing import shared_memory",
        "from os import fork",
        "eval('1')",
        "torch.load(f)",
        "run(c, shell=True)",
        "np.load(f, allow_pickle=flag)",
    ],
)
def test_bad_code_is_found(text):
    assert any(banned(node) for node in ast.walk(ast.parse(text)))


@pytest.mark.parametrize("text", ["model.eval()", "np.load(f, allow_pickle=False)"])
def test_good_code_passes(text):
    assert not any(banned(node) for node in ast.walk(ast.parse(text)))

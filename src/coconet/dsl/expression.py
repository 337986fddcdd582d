"""Expressions of program text: Python's grammar over a closed vocabulary.

The vocabulary is the user's functions and operators; what their arguments may be is
read off the annotations of their parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache, partial
from inspect import Parameter, isfunction, signature
from math import inf, nan
from typing import Any, get_args

import coconet.ops
from coconet.dsl.tensor import Tensor
from coconet.errors import ProgramError
from coconet.ir import (
    DTYPES,
    FLAT,
    ROWS,
    Dim,
    Group,
    Layout,
    Local,
    Replicated,
    Value,
    bool_,
)
from coconet.ops import (
    ELEMENTWISE,
    Elementwise,
    Literal,
    composites,
    elementwise_function,
    functions,
)

__all__ = ["elided", "read_call", "read_groups", "read_layout", "read_tensor"]

_WORDS: dict[str, Callable[[str], Any]] = {
    "Cut": {"FLAT": FLAT}.get,
    "DType": {**DTYPES, "bool_": bool_}.get,
    "Layout": {"Local": Local(), "Replicated": Replicated()}.get,
    "Sequence[Extent]": Dim,
    "float | int": {"inf": inf}.get,
}
"""A parameter's annotation -> what a bare word means there, None for nothing."""

_MAKERS: dict[str, dict[str, Callable[..., Any]]] = {
    "Cut": {"ROWS": ROWS},
    "Group": {"Group": Group},
    "Layout": {layout.__name__: layout for layout in get_args(Layout)},
}
"""The same for calls."""

_NO_LITERALS = {"inf": inf, "-inf": -inf, "nan": nan}
"""Numbers that Python can only write as float('inf')."""

_SHOWN = 60  # characters of a wrong expression


def read_tensor(text: str, known: Mapping[str, Tensor]) -> Tensor:
    """Return what an expression of these values means.

    Raises ProgramError if it is none, or is not legal.
    """
    try:
        return _operand(_tree(text), known)
    except RecursionError:
        raise _no_expression(text, "nested too deep") from None


def read_layout(text: str) -> Layout:
    """Return the layout of this text; raises ProgramError if it is none."""
    return _parameter("Layout", _tree(text))


def read_groups(text: str) -> tuple[Group, ...]:
    """Return the groups of this list; raises ProgramError if it is none."""
    return _parameter("Group", _tree(f"({text},)"))


def read_call(text: str, makers: Mapping[str, Callable[..., Any]]) -> Any:
    """Return what one of these functions makes of the arguments in this text.

    Raises ProgramError if the text is no call of one of them.
    """
    node = _tree(text)
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in makers:
            return _made(makers[name], node, {})
        case _:
            raise _refusal(node, f"one of {', '.join(makers)}")


def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise _no_expression(text, reason) from None


def _no_expression(text: str, reason: str) -> ProgramError:
    got = f"{elided(text)}: {reason}"
    return ProgramError("this is no expression", got=got, need="x + 2.0 * y")


def _refusal(node: ast.AST, need: str, reason: str = "") -> ProgramError:
    shown = elided(ast.unparse(node))
    return ProgramError(
        "this expression means nothing here",
        got=f"{shown}: {reason}" if reason else shown,
        need=need,
    )


def elided(text: str) -> str:
    """Return the beginning of a text, short enough for a message."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 2] + ".."


def _operand(node: ast.expr, known: Mapping[str, Tensor]) -> Tensor:
    match node:
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return _literal(_number(node))
        case ast.Call(
            func=ast.Name(id="float"), args=[ast.Constant(value=word)], keywords=[]
        ) if word in _NO_LITERALS:
            return _literal(_NO_LITERALS[word])
        case ast.Call(func=ast.Name(id=name)) if name in _functions():
            return _made(_functions()[name], node, known)
        case ast.UnaryOp(op=op, operand=x) if type(op) in _operators():
            return _applied(op, x, known=known)
        case ast.BinOp(op=op, left=a, right=b) if type(op) in _operators():
            return _applied(op, a, b, known=known)
        case ast.Compare(ops=[op], left=a, comparators=[b]) if type(op) in _operators():
            return _applied(op, a, b, known=known)
        case _:
            raise _refusal(node, "values above this line, numbers, and operations")


def _applied(op: ast.AST, *operands: ast.expr, known: Mapping[str, Tensor]) -> Tensor:
    name = _operators()[type(op)]
    return Elementwise(name).of(*(_operand(x, known) for x in operands))


def _literal(number: float | int) -> Tensor:
    op = Literal(number)
    return Tensor(Value(op, (), op.infer()))


def _made(make: Callable[..., Any], node: ast.Call, known: Mapping[str, Tensor]) -> Any:
    """Call a function of ours with what the arguments mean to its parameters."""
    rules = signature(make)
    keywords = {keyword.arg or "": keyword.value for keyword in node.keywords}
    try:
        bound = rules.bind(*node.args, **keywords)
        for name, given in bound.arguments.items():
            parameter = rules.parameters[name]
            read = partial(_argument, parameter.annotation, known)
            is_many = parameter.kind is Parameter.VAR_POSITIONAL
            bound.arguments[name] = tuple(map(read, given)) if is_many else read(given)
        return make(*bound.args, **bound.kwargs)
    except (TypeError, ValueError) as error:
        need = ast.unparse(node.func) + str(rules).partition(" -> ")[0]
        raise _refusal(node, need, str(error)) from None


def _argument(annotation: str, known: Mapping[str, Tensor], node: ast.expr) -> Any:
    if annotation != "Any":
        return _parameter(annotation, node)
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_operand(part, known) for part in node.elts)
    return _operand(node, known)


def _parameter(annotation: str, node: ast.expr) -> Any:
    words, makers = _WORDS.get(annotation), _MAKERS.get(annotation, {})
    match node:
        case ast.Constant(value=str() | bool() | None):
            return node.value
        case ast.Constant() | ast.UnaryOp():
            return _number(node)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(_parameter(annotation, part) for part in parts)
        case ast.Call(func=ast.Name(id=word)) if word in makers:
            return _made(makers[word], node, {})
        case ast.Name(id=word) if words and (meaning := words(word)) is not None:
            return meaning
        case _:
            raise _refusal(node, annotation)


def _number(node: ast.expr) -> float | int:
    match node:
        case ast.Constant(value=float() | int() as number):
            if type(number) is not bool:
                return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as positive):
            return -_number(positive)
        case _:
            pass
    raise _refusal(node, "a number")


@cache
def _functions() -> Mapping[str, Callable[..., Any]]:
    """Return the user's functions of all ops: those that take an operand first."""
    found = {name: elementwise_function(name) for name in ELEMENTWISE}
    for module in (coconet.ops, functions, composites):
        for name, function in vars(module).items():
            if isfunction(function) and not name.startswith("_"):
                first = next(iter(signature(function).parameters.values()))
                if first.annotation == "Any":
                    found[name] = function
    return found


@cache
def _operators() -> Mapping[type[ast.AST], str]:
    """Return the operators of element-wise ops, as Python's parser has them."""
    found: dict[type[ast.AST], str] = {}
    for name, meaning in ELEMENTWISE.items():
        symbol, _ = meaning.symbol
        if symbol:
            text = f"{'a ' if meaning.arity == 2 else ''}{symbol} b"
            node: Any = ast.parse(text, mode="eval").body
            found[type(node.ops[0] if isinstance(node, ast.Compare) else node.op)] = (
                name
            )
    return found

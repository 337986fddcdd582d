"""Programs read back from their text: equal, names and all; wrong text is refused."""

from __future__ import annotations

import contextlib
import inspect
import random
import warnings

import pytest

import coconet as cc
from coconet.dsl.parse import MAX_CHARACTERS, read_program
from coconet.errors import DtypeError, LayoutError, ProgramError
from coconet.ir import same_program
from coconet.ops import OPS, Input, Literal
from coconet.workloads import optimizers

DP = cc.Group("dp")
N, M = cc.dims("N M")
SGD = optimizers.sgd
ALL = [p for p in vars(optimizers).values() if isinstance(p, cc.Program)]


def tensor(name, layout=None, shape=(N, 6), dtype=cc.f32, group=DP):
    return cc.tensor(name, dtype, shape, layout or cc.Replicated(), group)


def program(*outputs, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a Local output
        return cc.program("k", inputs=inputs, outputs=list(outputs))


def code(program):
    """The text without comments."""
    return [line.split(" # ")[0].rstrip() for line in str(program).splitlines()]


def read_back(program):
    """Check that a program's text means the program; return what was read."""
    found = read_program(str(program))
    assert same_program(found, program), f"{program}\n{found}"
    assert code(found) == code(program)
    return found


@pytest.mark.parametrize("program", ALL, ids=lambda program: program.name)
def test_workloads_as_written(program):
    read_back(program)


X, Y, G = tensor("x"), tensor("y"), tensor("g", cc.Local())
B = tensor("b", dtype=cc.bool_)
FLAT, ROWS = tensor("flat", cc.Sliced(cc.FLAT)), tensor("rows", cc.Sliced(cc.ROWS(1)))
R = tensor("r", shape=(4, 6))
S, T = cc.scalar("s"), cc.scalar("t", cc.i64)
EVERY_INPUT = [X, Y, G, B, FLAT, ROWS, R, S, T]

EXPRESSIONS = {
    "operators": [X + Y * S - X / 2, -X * -2.0, -(X - Y) - (X - Y), X * (-S) ** 2],
    "powers": [X * S**T**2, X * (S**T) ** 2, X * -(S**2), X * 2.0**S],
    "comparisons": [X - Y < Y, X <= S, X >= 1, Y > X],
    "functions": [abs(X), cc.clamp(X, S, 1), cc.maximum(X, 0), cc.rsqrt(X), cc.relu(Y)],
    "composites": [cc.softmax(X), cc.layer_norm(X, Y, dim=(0, 1)), cc.gelu(X)],
    "maths": [
        *(cc.exp(X), cc.log(X), cc.sin(X), cc.cos(X), cc.tanh(X), cc.erf(X)),
        *(cc.sigmoid(X), cc.silu(X), cc.gelu(X, approximate="tanh"), X**Y, X**2),
    ],
    "bools": [cc.logical_and(B, cc.logical_not(B)), cc.logical_or(B, cc.equal(X, Y))],
    "where": [cc.where(B, X, 0), cc.where(X < Y, S, Y)],
    "dropout": [cc.dropout(X, 0.5, T), cc.dropout(X, 0, T + 1), cc.dropout(Y, 1, T, 7)],
    "casts": [cc.cast(X, cc.bf16), cc.cast(B, cc.f64), cc.cast(B, cc.bool_)],
    "all_reduce": [cc.all_reduce(G), cc.all_reduce(G, "mean")],
    "reduce_scatter": [cc.reduce_scatter(G), cc.reduce_scatter(G, "max", cc.ROWS(2))],
    "slices": [cc.slice_(X, 1), cc.slice_(X), cc.slice_(X, cc.ROWS(1))],
    "all_gather": [cc.all_gather(FLAT), cc.all_gather(ROWS)],
    "update": [cc.update(X, X + 1.0)],
    "reductions": [
        *(cc.sum_(X), cc.mean(X, 1), cc.max_(X, (0, 1), keepdim=True), cc.prod(X, -1)),
        *(cc.norm(X), cc.norm(X, ord=1), cc.norm(X, dim=0, ord=float("inf"))),
        *(cc.min_(X, ()), cc.sum_(X, [0])),
    ],
    "views": [
        *(cc.reshape(X, (3, N, 2)), cc.reshape(R, [24]), cc.transpose(X, (-1, 0))),
        *(cc.index(R, 0, 3), cc.index(R, 1, 2, 3), cc.index(R, 0, 0, 0)),
    ],
    "concat": [cc.concat((R, R + 1.0)), cc.concat([X, Y, X * 2.0], 1), cc.concat([R])],
}
"""Every function and operator, by some of its arguments."""


def inputs_of(*outputs):
    """Return what these tensors need among all inputs."""
    found, stack = set(), [out.value for out in outputs]
    while stack:
        value = stack.pop()
        found.add(value)
        stack += [source for source in value.inputs if source not in found]
    return [x for x in EVERY_INPUT if x.value in found]


@pytest.mark.parametrize("outputs", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_operation(outputs):
    read_back(program(*outputs, inputs=inputs_of(*outputs)))


def test_no_operation_is_left_out():
    made = program(
        *(out for outputs in EXPRESSIONS.values() for out in outputs),
        inputs=EVERY_INPUT,
    )
    assert {type(value.op) for value in made.values} | {Input} == {*OPS}
    read_back(made)


def test_every_public_function_is_in_the_vocabulary():
    from coconet.dsl.expression import _functions

    public = {
        name
        for name, value in vars(cc).items()
        if inspect.isfunction(value)
        and value.__module__.startswith("coconet.ops")
        and name in cc.__all__
    }
    assert len(public) > 25
    assert public <= _functions().keys()


@pytest.mark.parametrize(
    "number",
    [
        *(0, 1, -1, 2**63 - 1, -(2**63), 10**18, 0.0, -0.0, 0.1, -1.5, 1e300, 5e-324),
        *(1e16, -1e-7, 3.0, float("inf"), -float("inf"), float("nan")),
    ],
    ids=repr,
)
def test_numbers(number):
    x = tensor("x")
    literal = x.lift(number)
    negated = -literal
    outputs = [x * S * literal, x + number, x - (S + negated), x * abs(literal)]
    found = read_back(program(*outputs, x * -negated, inputs=[x]))
    numbers = [v.op.value for v in found.values_of(Literal)]
    assert {repr(value) for value in numbers} == {repr(number)}
    assert {type(value) for value in numbers} == {type(number)}


WORDS = (
    *("sqrt", "FLAT", "ROWS", "f32", "bool", "float", "inf", "nan", "fused", "unnamed"),
    *(
        "program",
        "on",
        "scalar",
        "Local",
        "Group",
        "N",
        "match",
        "print",
        "x_1",
        "mu_2",
    ),
    *("\u03bc", "\u540d\u524d"),
)


@pytest.mark.parametrize("name", WORDS)
def test_awkward_names(name):
    x, s = tensor(name), cc.scalar("a")
    y = cc.slice_(cc.sqrt(x) + s, cc.FLAT)
    read_back(cc.program(name, inputs=[x], outputs=[y, cc.cast(x, cc.f64)]))
    number = cc.scalar(name)
    shape = (cc.dims(name)[0], 2)
    x = cc.tensor("x", cc.f32, shape, cc.Sliced(cc.ROWS(1)), DP)
    read_back(cc.program("k", inputs=[x], outputs=[cc.reshape(x, shape) * number]))


@pytest.mark.parametrize("name", ["if", "None", "lambda", "\ufb01", "a b", "1x", ""])
def test_names_that_could_not_be_read_back_are_refused(name):
    for declare in (tensor, cc.scalar, cc.Group("dp") and cc.ir.Dim):
        with pytest.raises(ValueError, match="name"):
            declare(name)
    with pytest.raises(ValueError, match="name"):
        cc.program(name, inputs=[X], outputs=[X + 1.0])


@pytest.mark.parametrize(
    "group",
    [
        *(cc.Group("tp", 4), cc.Group("a # b"), cc.Group("it's", 1), cc.Group('"q"')),
        *(cc.Group("two\nlines"), cc.Group(" = "), cc.Group("\\"), cc.Group("")),
    ],
    ids=repr,
)
def test_groups(group):
    x = tensor("x", group=group)
    read_back(program(x + 1.0, inputs=[x]))
    y = tensor("y")
    both = read_back(program(x + 1.0, y * S, inputs=[y, x]))
    assert both.groups == (DP, group)


def test_layouts_and_shapes():
    layouts = (
        cc.Local(),
        cc.Replicated(),
        cc.Rooted(2),
        cc.Sliced(0),
        cc.Sliced(cc.FLAT),
    )
    shapes = (), (0,), (N,), (1, N, 3), (N, N)
    inputs = [
        cc.tensor(f"x{i}_{k}", cc.u8, shape, layout, DP)
        for i, layout in enumerate(layouts)
        for k, shape in enumerate(shapes)
        if shape or layout != cc.Sliced(0)
    ]
    read_back(program(*(x + 1 for x in inputs), inputs=inputs))


def test_values_without_a_name_keep_theirs():
    x = tensor("x")
    middle = (x + 1.0) * (x + 2.0)
    last = x * 3.0 + middle
    straight = read_back(program(middle, last, inputs=[x]))
    assert "unnamed" not in str(straight)
    crossed = read_back(program(last, middle, inputs=[x]))
    assert "unnamed" in str(crossed)


BY_HAND = """
# comments and empty lines say nothing, nor does the width of spaces
program double on Group('dp', 2)

    x f32[N]  Local   # a comment
    s f64 scalar
  total = all_reduce(x, op="mean")
  y = cast(abs_(total), dtype=bf16) * (s)
  return y
"""


def test_the_text_may_be_written_by_hand():
    group = cc.Group("dp", 2)
    x = cc.tensor("x", cc.f32, (N,), cc.Local(), group)
    total = cc.all_reduce(x, "mean")
    y = cc.cast(cc.abs_(total), cc.bf16) * cc.scalar("s")
    assert same_program(
        read_program(BY_HAND), cc.program("double", inputs=[x], outputs=[y])
    )


HEAD = "program k on Group('dp')\n  x f32[N] Local\n  p f32[N] Replicated\n"

WRONG = [
    ("", 1, "empty"),
    ("x f32[N] Local", 1, "no such line"),
    ("program if on Group('dp')", 1, "name"),
    ("program k on dp", 1, "means nothing"),
    ("program k on Group('dp', 0)", 1, "means nothing"),
    ("program k on Group('dp', True)", 1, "means nothing"),
    (HEAD + "  y f31[N] Local", 4, "dtype"),
    (HEAD + "  y f32[N] Sliced", 4, "means nothing"),
    (HEAD + "  y f32[N] Sliced(3)", 4, "cuts a dim"),
    (HEAD + "  y f32[-1] Local", 4, "not legal"),
    (HEAD + "  y f32 scalar", 4, "not legal"),
    (HEAD + "  x f32[N] Local", 4, "already"),
    (HEAD + "  _y f32[N] Local", 4, "not legal"),
    (HEAD + "  y = z + 1", 4, "means nothing"),
    (HEAD + "  y = x", 4, "itself"),
    (HEAD + "  y = x +", 4, "no expression"),
    (HEAD + "  y = x + 1\n  y = x + 2", 5, "already"),
    (HEAD + "  y = x + 'a'", 4, "means nothing"),
    (HEAD + "  y = x + True", 4, "means nothing"),
    (HEAD + "  y = x + 1j", 4, "means nothing"),
    (HEAD + "  y = x + 9223372036854775808", 4, "64 bits"),
    (HEAD + "  y = x @ p", 4, "means nothing"),
    (HEAD + "  y = x < p < x", 4, "means nothing"),
    (HEAD + "  y = x if x else p", 4, "means nothing"),
    (HEAD + "  y = x.name", 4, "means nothing"),
    (HEAD + "  y = p[0]", 4, "means nothing"),
    (HEAD + "  y = (lambda: 0)()", 4, "means nothing"),
    (HEAD + "  y = __import__('os')", 4, "means nothing"),
    (HEAD + "  y = open('k')", 4, "means nothing"),
    (HEAD + "  y = all_reduce()", 4, "means nothing"),
    (HEAD + "  y = all_reduce(x, 'median')", 4, "means nothing"),
    (HEAD + "  y = all_reduce(x, mean)", 4, "means nothing"),
    (HEAD + "  y = all_reduce(*x)", 4, "means nothing"),
    (HEAD + "  y = all_reduce(**x)", 4, "means nothing"),
    (HEAD + "  y = cast(p, f31)", 4, "means nothing"),
    (HEAD + "  y = slice_(p, ROWS(-1))", 4, "means nothing"),
    (HEAD + "  y = slice_(p, cut=1)", 4, "cuts a dim"),
    (HEAD + "  y = reshape(p, (N, Q))", 4, "number of elements"),
    (HEAD + "  y = p + float('1.0')", 4, "means nothing"),
    (HEAD + "  y = p + 'it is", 4, "quote"),
    (HEAD + f"  y = {'-' * 50_000}p", 4, "no expression"),
    (HEAD + f"  y = {'(' * 500}p{')' * 500}", 4, "no expression"),
    (HEAD + f"  y = p{' + p' * 5000}", 4, "no expression"),
    (HEAD + f"  y = {'9' * 5000} * p", 4, "no expression"),
    (HEAD + "  y = all_reduce(x)\n  return z", 5, "no such value"),
    (HEAD + "  y = all_reduce(x)\n  return y + y", 5, "no such value"),
    (HEAD + "  y = all_reduce(x)\n  return y\n  return y", 6, "returns once"),
    (HEAD + "  y = p + 1\n  unnamed _1\n  unnamed _2", 6, "given once"),
    (HEAD + f"  {'y' * 9999} {'z' * 9999}", 4, "no such line"),
    (HEAD + f"  {'y' * 9999} = {'z' * 9999}", 4, "means nothing"),
    (HEAD + "  y = all_reduce(x)\n  return p", 3, "not a computed tensor"),
    (HEAD + "  y = all_reduce(x)\n  return y, y", 4, "listed twice"),
    (HEAD + "  y = all_reduce(x)", 4, "no output"),
    (HEAD + "  y = p + 1.0\n  q = update(y, p)", 4, "writes an input"),
    (HEAD + "  y = update(p, p + 1.0)\n  q = update(p, p)", 5, "updated twice"),
    (HEAD + "  fused k:\n    y = p + 1.0\n  fused k:", 6, "already"),
    (HEAD + "  y = p + 1.0\n  return y\n  unnamed _1, _2", 6, "not these"),
    (HEAD + "  y = p + 1.0\n  return y\n  unnamed _1.._999999999", 6, "not these"),
    (HEAD + "  y = p + 1.0\n  return y\n  unnamed y", 6, "not these"),
    (HEAD + "  y = p + 1.0\n  return y\n  unnamed if", 6, "not these"),
    (HEAD + "  import os", 4, "no such line"),
]


@pytest.mark.parametrize(("text", "line", "words"), WRONG, ids=range(len(WRONG)))
def test_wrong_text_is_refused_at_its_line(text, line, words):
    with pytest.raises(ProgramError, match=words) as caught:
        read_program(text, file="a/wrong.txt")
    assert caught.value.at == f"wrong.txt:{line}"
    assert len(str(caught.value)) < 2000


def test_rules_are_those_of_the_language():
    with pytest.raises(LayoutError) as caught:
        read_program(HEAD + "  y = all_reduce(p)")
    assert caught.value.at == "<text>:4"
    with pytest.raises(DtypeError):
        read_program(HEAD + "  y = x + 2.0\n  z = cast(y, i32)")


def test_a_text_that_is_too_long_is_refused_unread():
    with pytest.raises(ProgramError, match="too long"):
        read_program("#" * (MAX_CHARACTERS + 1))


def test_values_know_their_line_of_the_text():
    found = read_program(str(SGD), file="kept/sgd.txt")
    assert found["lr"].at == "sgd.txt:4"
    assert found["avg"].at == "sgd.txt:5"


PIECES = (
    *("_1", "(", ")", "-", "FLAT", "[", " = ", "fused k:", "\n", "'", "#", "return "),
    *("unnamed ", "0", "program ", "update(", ", ", "    ", "\x00", "\u00e9", "**"),
    *("lambda: 0", "*x", "_1.._999999999", "\r", "\u2028", ":=", "\\"),
)


@pytest.mark.filterwarnings("default::SyntaxWarning")
def test_spoilt_texts_are_refused_or_are_programs():
    draw = random.Random(0)
    read = 0
    for _ in range(600):
        text = str(draw.choice(ALL))
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text))
            end = at + draw.randrange(5)
            text = text[:at] + draw.choice((*PIECES, "")) + text[end:]
        with contextlib.suppress(ProgramError):
            found = read_program(text)
            read_back(found)
            read += 1
    assert 0 < read < 600

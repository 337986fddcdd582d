"""Programs: look-up, users, order, text."""

import functools
import re

import pytest

import coconet as cc
from coconet.errors import ProgramError
from coconet.ops import AllReduce, Literal
from coconet.workloads.optimizers import adam, sgd

DP = cc.Group("dp")
(N,) = cc.dims("N")


def tensor(name, layout=None):
    return cc.tensor(name, cc.f32, (N,), layout or cc.Replicated(), DP)


def statements(program):
    """Right-hand sides by name, from the program's text."""
    lines = str(program).splitlines()
    pairs = (line.split("#")[0].split(" = ", 1) for line in lines if " = " in line)
    return {name.strip(): text.strip() for name, text in pairs}


def test_look_up_by_name():
    assert adam["avg"].name == "avg"
    assert adam["g"] in adam.inputs
    with pytest.raises(ProgramError) as caught:
        adam["nothing"]
    assert "avg" in caught.value.need


def test_a_value_of_another_program_is_not_inside():
    assert adam["p"] in adam
    assert sgd["p"] not in adam
    assert "p" not in adam


def test_users_are_in_program_order_and_listed_once():
    x = tensor("x")
    y = x * x
    z = x + y
    program = cc.program("k", inputs=[x], outputs=[y, z])
    assert [user.name for user in program.users(program["x"])] == ["y", "z"]
    assert program.users(program["z"]) == ()


def test_liveness():
    x = tensor("x")
    y = x * 2.0
    u = cc.update(x, y)
    program = cc.program("k", inputs=[x], outputs=[u])
    assert program.is_live(program["y"])
    assert program.is_live(program["u"])
    assert program.effects == (program["u"],)
    assert program.outputs == ()


def test_parts_of_adam():
    assert [v.name for v in adam.tensors] == ["g", "p", "m", "v"]
    assert [v.name for v in adam.scalars] == ["lr", "beta1", "beta2", "eps", "t"]
    assert adam.groups == (DP,)
    assert adam.dims == (N,)
    assert [v.name for v in adam.values_of(AllReduce)] == ["avg"]
    assert adam.fusion_of(adam["avg"]) is None


def without_lines(program):
    """The text, the user's lines left out: they move."""
    return re.sub(r"  \w+\.py:\d+", "", str(program))


@pytest.mark.parametrize("program", [sgd, adam], ids=["sgd", "adam"])
def test_text_as_written(program, golden):
    golden(f"program_{program.name}", without_lines(program))


def test_text_as_scheduled(golden):
    draft = adam.schedule()
    part, whole = draft.split("avg")
    region, tail = draft.reorder(whole, ["m1", "v1", "p1"])
    draft.slice_state("m", "v")
    draft.dead("m1_ag", "v1_ag")
    draft.fuse(part, region, tail)
    golden("program_adam_fused", without_lines(draft.program))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x, y, s: (x + y) * s, "(x + y) * s"),
        (lambda x, y, s: x + y * s, "x + y * s"),
        (lambda x, y, s: x - (y - s), "x - (y - s)"),
        (lambda x, y, s: x - y - s, "x - y - s"),
        (lambda x, y, s: x / (y / s), "x / (y / s)"),
        (lambda x, y, s: -(x * y), "-(x * y)"),
        (lambda x, y, s: -x * y, "-x * y"),
        (lambda x, y, s: x * 2.0**s, "x * 2.0 ** s"),
        (lambda x, y, s: x * (s**2) ** 3, "x * (s ** 2) ** 3"),
        (lambda x, y, s: x * s ** (s**2), "x * s ** s ** 2"),
        (lambda x, y, s: x * (-s) ** 2, "x * (-s) ** 2"),
        (lambda x, y, s: x * (1 - s), "x * (1 - s)"),
        (lambda x, y, s: x + -0.0, "x + -0.0"),
        (lambda x, y, s: x * (-2.0) ** s, "x * (-2.0) ** s"),
        (lambda x, y, s: abs(x) + y, "abs(x) + y"),
        (lambda x, y, s: cc.where(x < y, x, s), "where(x < y, x, s)"),
        (lambda x, y, s: cc.where(x + y >= s, x, y), "where(x + y >= s, x, y)"),
        (lambda x, y, s: cc.cast(x, cc.bf16), "cast(x, bf16)"),
        (lambda x, y, s: cc.slice_(x, cc.ROWS(1)), "slice_(x, ROWS(k=1))"),
        (lambda x, y, s: cc.maximum(x, 0), "maximum(x, 0)"),
    ],
)
def test_text_keeps_the_meaning_of_an_expression(make, text):
    x, y, s = tensor("x"), tensor("y"), cc.scalar("s")
    out = make(x, y, s)
    used = [v for v in (x, y, s) if re.search(rf"\b{v.name}\b", text)]
    program = cc.program("k", inputs=used, outputs=[out])
    assert list(statements(program).values())[-1] == text


def test_a_value_read_twice_is_printed_once():
    x = tensor("x")
    y = functools.reduce(lambda a, _: a * a, range(40), x + 1.0)
    program = cc.program("k", inputs=[x], outputs=[y * 2.0])
    assert len(str(program)) < 5000
    assert statements(program)["_2"] == "x + 1.0"


def test_numpy_numbers_print_as_numbers():
    np = pytest.importorskip("numpy")
    x = tensor("x")
    y = x * np.float64(0.5)
    program = cc.program("k", inputs=[x], outputs=[y])
    assert statements(program)["y"] == "x * 0.5"
    assert [type(v.op.value) for v in program.values_of(Literal)] == [float]


def test_a_kernel_is_printed_after_what_it_reads():
    x = tensor("x")
    first = x + 1.0
    between = x * 3.0
    last = first - between
    program = cc.program("k", inputs=[x], outputs=[first, between, last])
    draft = program.schedule()
    draft.fuse(first, last)
    shown = [name for name in statements(draft.program) if not name.startswith("_")]
    assert shown == ["between", "first", "last"]


def test_a_long_sum_is_printed_in_parts():
    x = tensor("x")
    total = functools.reduce(lambda a, _: a + x, range(2000), x)
    lines = str(cc.program("k", inputs=[x], outputs=[total])).splitlines()
    assert len(lines) > 50
    assert max(map(len, lines)) < 250

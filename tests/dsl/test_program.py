"""program(): what it accepts, names, orders and refuses."""

from __future__ import annotations

import warnings

import pytest

import coconet as cc
from coconet.dsl import source
from coconet.errors import ProgramError

DP = cc.Group("dp")
(N,) = cc.dims("N")


def tensor(name="x", layout=None):
    return cc.tensor(name, cc.f32, (N,), layout or cc.Replicated(), DP)


def refused(**parts):
    with pytest.raises(ProgramError) as caught:
        cc.program("k", **parts)
    problem = caught.value
    assert str(problem.got)
    assert str(problem.need)
    assert problem.fix
    return problem


def names(program):
    return [value.name for value in program.values]


def test_values_are_ordered_and_named():
    x, y = tensor("x"), tensor("y")
    a = x + y
    out = (a * 2.0) * (a + 1.0)
    program = cc.program("k", inputs=[x, y], outputs=[out])
    assert names(program) == ["a", "_1", "_2", "_3", "_4", "out"]
    assert [v.name for v in program.outputs] == ["out"]
    assert program.handles[a.value] is program["a"]


def test_what_no_output_needs_is_left_out():
    x = tensor()
    a = x + 1.0
    b = x * 2.0
    program = cc.program("k", inputs=[x], outputs=[b])
    assert "a" not in names(program)
    assert a.value not in program.handles


def test_equal_names_are_numbered():
    x = tensor()
    y = x + 1.0
    first = y
    y = y * 2.0
    second = y
    y = y * 3.0
    program = cc.program("k", inputs=[x], outputs=[first, second, y])
    assert [v.name for v in program.outputs] == ["y", "y_2", "y_3"]


def test_a_name_of_an_input_is_not_taken_again():
    x = tensor()
    declared = x
    x = x + 1.0
    program = cc.program("k", inputs=[declared], outputs=[x])
    assert [v.name for v in program.outputs] == ["x_2"]


def test_underscores_are_for_values_without_a_name():
    x = tensor()
    _hidden = x + 1.0
    program = cc.program("k", inputs=[x], outputs=[_hidden * 2.0])
    assert names(program) == ["_1", "hidden", "_2", "_3"]


def test_a_name_that_would_be_a_number_is_none():
    x = tensor()
    _1 = x + 1.0
    program = cc.program("k", inputs=[x], outputs=[_1 * 2.0])
    assert all(name.isidentifier() for name in names(program))


def test_an_unnamed_update_is_named_after_its_target():
    p = tensor("p")
    program = cc.program("k", inputs=[p], outputs=[cc.update(p, p * 2.0)])
    assert [v.name for v in program.effects] == ["p_new"]
    assert program.outputs == ()


def test_an_update_is_an_effect_even_if_only_read():
    p = tensor("p")
    p1 = cc.update(p, p * 2.0)
    y = p1 + 1.0
    program = cc.program("k", inputs=[p], outputs=[y])
    assert program.effects == (program["p1"],)
    assert program.outputs == (program["y"],)


def test_tensors_come_first_and_scalars_are_appended():
    s, t, x, y = cc.scalar("s"), cc.scalar("t"), tensor("x"), tensor("y")
    out = x * t + y * s
    program = cc.program("k", inputs=[s, y, x], outputs=[out])
    assert [v.name for v in program.inputs] == ["y", "x", "s", "t"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_each_call_makes_its_own_program():
    x = tensor(layout=cc.Local())
    y = x + 1.0
    one = cc.program("one", inputs=[x], outputs=[y])
    two = cc.program("two", inputs=[x], outputs=[y])
    assert one["y"] is not two["y"]
    assert y.name == "y"


def test_a_local_output_is_warned_about():
    x = tensor(layout=cc.Local())
    y = x + 1.0
    with pytest.warns(UserWarning, match="output 'y' of program 'k' is Local") as seen:
        cc.program("k", inputs=[x], outputs=[y])
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z = cc.all_reduce(x)
        cc.program("k", inputs=[x], outputs=[z])


def test_a_local_update_is_no_output():
    x = tensor(layout=cc.Local())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cc.program("k", inputs=[x], outputs=[cc.update(x, x + 1.0)])


@pytest.mark.parametrize("listed", [1.0, "x", True])
def test_what_is_no_tensor_is_not_listed(listed):
    x = tensor()
    with pytest.raises(TypeError, match="lists tensors"):
        cc.program("k", inputs=[x], outputs=[listed])
    with pytest.raises(TypeError, match="lists tensors"):
        cc.program("k", inputs=[listed], outputs=[x + 1.0])


def test_no_output():
    assert "no output" in refused(inputs=[], outputs=[]).what


def test_an_output_that_is_an_input():
    x = tensor()
    assert "not a computed tensor" in refused(inputs=[x], outputs=[x]).what


def test_a_scalar_output():
    s = cc.scalar("s")
    assert "not a computed tensor" in refused(inputs=[s], outputs=[s + 1.0]).what


def test_an_output_listed_twice():
    x = tensor()
    y = x + 1.0
    problem = refused(inputs=[x], outputs=[y, y])
    assert "listed twice" in problem.what
    assert problem.at == y.value.at


def test_an_input_listed_twice():
    x = tensor()
    problem = refused(inputs=[x, x], outputs=[x + 1.0])
    assert "listed twice" in problem.what
    assert problem.at == x.value.at


def test_an_input_not_used():
    x, y = tensor("x"), tensor("y")
    assert "'y'" in refused(inputs=[x, y], outputs=[x + 1.0]).what


def test_an_input_not_listed():
    x, y = tensor("x"), tensor("y")
    problem = refused(inputs=[x], outputs=[x + y])
    assert "not among its inputs" in problem.what
    assert "y" in problem.fix


def test_an_input_that_is_computed():
    x = tensor()
    y = x + 1.0
    assert "not declared" in refused(inputs=[y], outputs=[y * 2.0]).what


def test_two_inputs_of_one_name():
    x, other = tensor("x"), tensor("x")
    assert (
        "two inputs are named 'x'"
        in refused(inputs=[x, other], outputs=[x + other]).what
    )


def test_an_update_that_is_not_listed():
    p, q = tensor("p"), tensor("q")
    cc.update(q, p + q)
    problem = refused(inputs=[p, q], outputs=[cc.update(p, p + 1.0)])
    assert "'q' of program" in problem.what
    assert "list its update in outputs" in problem.fix


def test_two_updates_of_one_tensor():
    p = tensor("p")
    first = cc.update(p, p + 1.0)
    updates = [first, cc.update(p, p + 2.0)]
    problem = refused(inputs=[p], outputs=updates)
    assert "updated twice" in problem.what
    assert problem.at == updates[-1].value.at


def test_an_update_of_what_is_computed():
    p = tensor("p")
    q = p * 2.0
    problem = refused(inputs=[p], outputs=[cc.update(q, p)])
    assert "writes an input" in problem.what
    again = refused(inputs=[p], outputs=[cc.update(cc.update(p, q), p)])
    assert "writes an input" in again.what


@pytest.mark.parametrize("name", ["", "1k", "my program", "a-b"])
def test_a_programs_name_is_an_identifier(name):
    x = tensor()
    with pytest.raises(ValueError, match="identifier"):
        cc.program(name, inputs=[x], outputs=[x + 1.0])


def test_a_package_beside_ours_is_the_users(tmp_path):
    beside = f"{source.__file__.rsplit('/dsl/', 1)[0]}_examples/train.py"
    namespace = {"cc": cc, "x": tensor()}
    code = compile("y = x + 1.0", beside, "exec")
    exec(code, namespace)
    assert namespace["y"].value.at == "train.py:1"


def test_a_long_chain_is_no_deep_recursion():
    x = tensor()
    value = x
    for _ in range(3000):
        value = value + 1.0
    program = cc.program("k", inputs=[x], outputs=[value])
    assert len(program.values) == 6000
    assert len(program.schedule().program.values) == 6000


def test_lists_are_asked_for():
    dp = cc.Group("dp")
    x = cc.tensor("x", cc.f32, (4,), cc.Local(), dp)
    with pytest.raises(TypeError, match=r"outputs=\[y\]"):
        cc.program("one", inputs=[x], outputs=cc.all_reduce(x))
    with pytest.raises(TypeError, match=r"cc\.f32"):
        cc.empty((3,), "f32")

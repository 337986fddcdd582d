"""Each malformed program is refused."""

from dataclasses import replace

import pytest

import coconet as cc
from coconet.errors import InternalError, ProgramError
from coconet.ir import Fusion, Program
from coconet.ir.verify import verify_program
from coconet.ops import AllReduce, Elementwise

DP = cc.Group("dp")
(N,) = cc.dims("N")


@pytest.fixture
def program():
    x = cc.tensor("x", cc.f32, (N,), cc.Replicated(), DP)
    a = x + x
    b = a * x
    return cc.program("k", inputs=[x], outputs=[b])


def changed(program, **fields):
    parts = ("name", "inputs", "values", "outputs", "effects", "fusions")
    return Program(**{part: getattr(program, part) for part in parts} | fields)


def refused(program):
    with pytest.raises(InternalError) as caught:
        verify_program(program)
    return str(caught.value)


def test_a_good_program_passes(program):
    verify_program(program)
    verify_program(changed(program))


def test_names_are_unique(program):
    a, b = program.values
    twin = replace(b, name="a")
    assert "not unique" in refused(changed(program, values=(a, twin), outputs=(twin,)))


def test_every_value_has_a_name(program):
    a, b = program.values
    nameless = replace(b, name="")
    broken = changed(program, values=(a, nameless), outputs=(nameless,))
    assert "not unique" in refused(broken)


def test_values_stand_after_what_they_read(program):
    a, b = program.values
    assert "stands before" in refused(changed(program, values=(b, a)))


def test_every_source_is_inside(program):
    _, b = program.values
    assert "stands before" in refused(changed(program, values=(b,)))


def test_types_are_what_infer_says(program):
    a, b = program.values
    lying = replace(b, type=b.type.with_layout(cc.Local()))
    assert "wrong type" in refused(
        changed(program, values=(a, lying), outputs=(lying,))
    )


def test_an_op_that_does_not_fit_is_refused(program):
    a, b = program.values
    wrong = replace(b, op=AllReduce(), inputs=(a,))
    with pytest.raises(ProgramError, match="already Replicated"):
        verify_program(changed(program, values=(a, wrong), outputs=(wrong,)))


@pytest.mark.parametrize("field", ["outputs", "effects"])
def test_results_are_inside(program, field):
    outside = replace(program["b"], name="outside")
    assert "is an output" in refused(changed(program, **{field: (outside,)}))


def test_a_value_is_in_one_kernel(program):
    a, b = program.values
    twice = (Fusion("kernel_1", (a, b)), Fusion("kernel_2", (b,)))
    assert "in 2 fusions" in refused(changed(program, fusions=twice))


def test_kernels_hold_values_of_the_program(program):
    outside = replace(program["b"], name="c", op=Elementwise("add"))
    kernels = (Fusion("kernel_1", (outside,)),)
    assert "not in program" in refused(changed(program, fusions=kernels))

"""The canonical text: equal for what differs in names only, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

from small_programs import N, program, tensor

import coconet as cc
from coconet.ir import Fusion
from coconet.tuning.canonical import canonical
from coconet.workloads.optimizers import adam, sgd


def fused(program, *kernels):
    """Put named values in kernels, without asking whether that is legal."""
    made = (
        Fusion(f"kernel_{i}", tuple(program[name] for name in names.split()))
        for i, names in enumerate(kernels)
    )
    return replace(program, fusions=tuple(made))


def test_names_do_not_tell():
    x, y = tensor("x"), tensor("y")
    one = program(x * 2 - y, inputs=[x, y])
    left, right = tensor("left"), tensor("right")
    twice = left * 2
    difference = twice - right
    other = cc.program("other", inputs=[left, right], outputs=[difference])
    assert {v.name for v in one.values}.isdisjoint({"twice", "difference"})
    assert canonical(one) == canonical(other)


def test_the_order_of_independent_values_does_not_tell():
    x, y = tensor("x"), tensor("y")
    a = x + y
    b = x - y
    c = a * b
    one = program(c, inputs=[x, y])
    other = replace(one, values=(one["b"], one["a"], one["c"]))
    assert canonical(one) == canonical(other)


def test_names_of_kernels_and_kernels_of_one_do_not_tell():
    one = fused(adam, "_4 _5", "_9 _10 _11")
    other = fused(adam, "_9 _10 _11", "avg", "_4 _5")
    assert canonical(one) == canonical(other)
    assert canonical(fused(adam, "avg")) == canonical(adam)


def test_kernels_tell():
    programs = (
        adam,
        fused(adam, "_4 _5"),
        fused(adam, "_4 _5 m1"),
        fused(adam, "_4 _5", "_9 _10"),
        fused(adam, "_4 _5 _9 _10"),
    )
    assert len({canonical(p) for p in programs}) == 5


def test_of_two_equal_values_it_tells_which_one_is_fused():
    x, y = tensor("x"), tensor("y")
    a = x + 1
    b = x + 1
    c = a * y
    d = b - y
    p = program(c, d, inputs=[x, y])
    fusions = [fused(p, kernel) for kernel in ("a c", "b d", "a d", "b c", "a b")]
    assert len({canonical(made) for made in fusions}) == 5


def test_which_of_two_interchangeable_values_is_fused_does_not_tell():
    x = tensor("x")
    a = x + 1
    b = x + 1
    c = a * 2
    d = b * 2
    p = program(c - d, d - c, inputs=[x])
    assert canonical(fused(p, "a c")) != canonical(fused(p, "a d"))
    p = program(c + a, d + b, inputs=[x])
    q = program(d + b, c + a, inputs=[x])
    assert canonical(p) == canonical(q)


def test_everything_else_tells():
    x, y, g = tensor("x"), tensor("y"), tensor("g", cc.Local())
    wide = cc.tensor("x", cc.f64, (N,), cc.Replicated(), cc.Group("dp"))
    sized = cc.tensor("x", cc.f32, (N,), cc.Replicated(), cc.Group("dp", 4))
    programs = [
        program(x * 2 - y, inputs=[x, y]),
        program(x * 3 - y, inputs=[x, y]),
        program(x * 2.0 - y, inputs=[x, y]),
        program(y - x * 2, inputs=[x, y]),
        program(x * 2 - y, inputs=[y, x]),
        program(x * 2 - x, inputs=[x]),
        program(x - y * 2, x * 2 - y, inputs=[x, y]),
        program(x * 2 - y, x - y * 2, inputs=[x, y]),
        program(cc.update(x, x * 2 - y), inputs=[x, y]),
        program(x + 0.0, inputs=[x]),
        program(x + -0.0, inputs=[x]),
        program(wide + 0.0, inputs=[wide]),
        program(sized + 0.0, inputs=[sized]),
        program(cc.all_reduce(g) * x, inputs=[g, x]),
        program(cc.all_reduce(g, "max") * x, inputs=[g, x]),
        sgd,
        adam,
    ]
    assert len({canonical(p) for p in programs}) == len(programs)


def test_every_step_of_a_schedule_tells():
    draft = adam.schedule()
    texts = [canonical(draft.program)]
    draft.split("avg")
    texts.append(canonical(draft.program))
    draft.reorder("avg", ["m1", "v1", "p1"])
    texts.append(canonical(draft.program))
    draft.slice_state("m")
    texts.append(canonical(draft.program))
    draft.dead("m1_ag")
    texts.append(canonical(draft.program))
    assert len(set(texts)) == 5

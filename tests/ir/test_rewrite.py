"""Rewriter: names, order, types, kernels and handles of a rebuilt program."""

import pytest

import coconet as cc
from coconet.errors import InternalError
from coconet.ir import Fusion, Rewriter
from coconet.ir.verify import verify_program
from coconet.ops import Elementwise, Slice

DP = cc.Group("dp")
(N,) = cc.dims("N")


@pytest.fixture
def program():
    x = cc.tensor("x", cc.f32, (N,), cc.Replicated(), DP)
    a = x * 2.0
    b = a + x
    c = b * a
    return cc.program("k", inputs=[x], outputs=[c])


def names(program):
    return [v.name for v in program.values if not v.type.is_scalar]


def test_nothing_replaced_gives_the_same_values(program):
    rewrite = Rewriter(program, made_by="test").finish()
    assert rewrite.program.values == program.values
    assert rewrite.moved == {}
    assert rewrite.made == ()


def test_a_replaced_value_is_read_by_all_its_users(program):
    rewriter = Rewriter(program, made_by="test")
    a = program["a"]
    rewriter.free(a)
    new = rewriter.new(Elementwise("neg"), program["x"], name="a", like=a)
    rewriter.replace(a, new)
    rewrite = rewriter.finish(made=((new,),))
    result = rewrite.program
    verify_program(result)
    assert names(result) == ["a", "b", "c"]
    assert result["b"].inputs == (result["a"], result["x"])
    assert result["c"].inputs == (result["b"], result["a"])
    assert result.outputs == (result["c"],)
    assert rewrite.moved[a] == (result["a"],)
    assert rewrite.moved[program["b"]] == (result["b"],)
    assert rewrite.made == ((result["a"],),)
    assert result["a"].made_by == "test"
    assert result["a"].loc == a.loc
    assert result["b"].made_by == ""


def test_types_are_inferred_again_downstream(program):
    rewriter = Rewriter(program, made_by="test")
    x = program["x"]
    part = rewriter.new(Slice(cc.FLAT), x, name="part", like=x)
    rewriter.replace(program["a"], part)
    result = rewriter.finish().program
    assert result["b"].inputs == (result["part"], result["x"])
    assert result["b"].type.layout == cc.Sliced(cc.FLAT)
    assert result["c"].type.layout == cc.Sliced(cc.FLAT)


def test_names_are_made_unique_and_freed(program):
    rewriter = Rewriter(program, made_by="test")
    assert rewriter.fresh("a") == "a_2"
    assert rewriter.fresh("a") == "a_3"
    rewriter.free(program["a"])
    assert rewriter.fresh("a") == "a"


def test_dropping_what_is_read_is_a_bug(program):
    rewriter = Rewriter(program, made_by="test")
    rewriter.drop(program["a"])
    with pytest.raises(InternalError, match="still read"):
        rewriter.finish()


def test_kernels_follow_their_members(program):
    rewriter = Rewriter(program, made_by="test")
    kernel = Fusion("kernel_1", (program["a"], program["b"]))
    (fusion,) = rewriter.finish(fusions=[kernel]).program.fusions
    assert fusion == kernel
    rewriter = Rewriter(program, made_by="test")
    a = program["a"]
    new = rewriter.new(Elementwise("neg"), program["x"], name="d", like=a)
    rewriter.replace(a, new)
    result = rewriter.finish(fusions=[kernel]).program
    (fusion,) = result.fusions
    assert [member.name for member in fusion.members] == ["d", "b"]


def test_a_long_region_is_no_deep_recursion():
    g = cc.tensor("g", cc.f32, (N,), cc.Local(), DP)
    x = cc.tensor("x", cc.f32, (N,), cc.Replicated(), DP)
    total = cc.all_reduce(g)
    y = total
    for _ in range(1000):
        y = y + x
    draft = cc.program("k", inputs=[g, x], outputs=[y]).schedule()
    _, whole = draft.split(total)
    region, tail = draft.reorder(whole, [y])
    assert (len(region), len(tail)) == (1001, 1)

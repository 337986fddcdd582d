"""Fuse: what makes a kernel, and what does not."""

from __future__ import annotations

from small_programs import M, N, names, program, reduced, refused, tensor

import coconet as cc
from coconet.schedule import Fuse
from coconet.workloads.optimizers import adam


def test_fuse_returns_members_in_program_order():
    draft = adam.schedule()
    members = draft.fuse("v1", "_11", "_10", "_9")
    assert names(members) == ["_9", "_10", "_11", "v1"]
    (fusion,) = draft.program.fusions
    assert fusion.members == members
    assert draft.program.fusion_of(draft.program["v1"]) is fusion
    assert draft.program.fusion_of(draft.program["avg"]) is None


def test_kernels_are_numbered_and_grow():
    draft = adam.schedule()
    draft.fuse("_10", "_11")
    draft.fuse("_1", "m1", "_5", "_4")
    assert [f.name for f in draft.program.fusions] == ["kernel_1", "kernel_2"]
    draft.fuse(draft.program.fusions[0], "v1", "_9")
    assert [len(f.members) for f in draft.program.fusions] == [4, 4]
    assert len({f.name for f in draft.program.fusions}) == 2


def test_fuse_of_nothing():
    draft = adam.schedule()
    assert "something to compute" in refused(lambda: draft.fuse()).what
    assert "something to compute" in refused(lambda: draft.fuse("lr", "g")).what


def test_fuse_takes_whole_kernels():
    draft = adam.schedule()
    draft.fuse("_10", "_11")
    problem = refused(lambda: draft.fuse("_11", "v1"))
    assert "a part of the kernel" in problem.what


def test_fuse_is_convex():
    x = tensor("x")
    a = x + 1.0
    b = a * 2.0
    c = b + a
    draft = program(c, inputs=[x]).schedule()
    problem = refused(lambda: draft.fuse(a, c))
    assert problem.fix == "fuse b too"


def test_kernels_do_not_wait_for_each_other():
    x, y = tensor("x"), tensor("y")
    a = x + 1.0
    b = a * 2.0
    c = y + 1.0
    d = c * 2.0
    draft = program(b, d, inputs=[x, y]).schedule()
    draft.fuse(a, d)
    assert "stands between" in refused(lambda: draft.fuse(b, c)).what
    draft.fuse(a, b, c, d)
    assert len(draft.program.fusions) == 1


def test_fuse_holds_one_reduction_first_and_gathers_last():
    g, m, _, s = reduced()
    twice = cc.all_reduce(m * g)
    y = s + twice
    draft = program(y, inputs=[g, m]).schedule()
    problem = refused(lambda: draft.fuse(s, twice, y))
    assert problem.fix == "a kernel for each"
    loc = g * 2.0
    t = cc.all_reduce(loc)
    draft = program(t + m, inputs=[g, m]).schedule()
    problem = refused(lambda: draft.fuse(loc, t))
    assert problem.fix == "leave loc out"
    draft = program(s * m, inputs=[g, m]).schedule()
    rs, ag = draft.split(s)
    (last,) = draft.program.outputs
    problem = refused(lambda: draft.fuse(rs, ag, last))
    assert "reorder" in problem.fix


def test_fuse_runs_over_the_same_elements():
    x, y = tensor("x", shape=(N, M)), tensor("y")
    a, b = x + 1.0, y + 1.0
    draft = program(a, b, inputs=[x, y]).schedule()
    assert "different elements" in refused(lambda: draft.fuse(a, b)).what
    a, b = cc.slice_(x), x * 2.0
    c = cc.all_gather(a * 2.0)
    draft = program(b, c, inputs=[x]).schedule()
    assert "by FLAT" in refused(lambda: draft.fuse(a, b)).got


def test_fuse_does_not_overwrite_what_peers_read():
    g, m, _, s = reduced()
    g1 = cc.update(g, g * 2.0)
    draft = program(g1, s * m, inputs=[g, m]).schedule()
    problem = refused(lambda: draft.fuse(s, g1))
    assert "while others of its elements are read" in problem.what
    assert problem.fix == "leave g1 out"


def test_fuse_of_two_groups():
    x = tensor("x")
    y = cc.tensor("y", cc.f32, (N,), cc.Replicated(), cc.Group("tp"))
    a, b = x + 1.0, y + 1.0
    draft = program(a, b, inputs=[x, y]).schedule()
    assert "two groups" in refused(lambda: draft.fuse(a, b)).what


def test_fuses_offered_are_maximal():
    g = tensor("g", cc.Local())
    s = cc.all_reduce(g)
    y = s * 2.0 + 1.0
    offered = list(Fuse.candidates(program(y, inputs=[g])))
    assert offered == [Fuse(("s", "_2", "y")), Fuse(("_2", "y"))]

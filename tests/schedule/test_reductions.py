"""Reductions over elements under split, reorder and fuse."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.errors import ScheduleError
from coconet.ops import AllGather, Reduce, ReduceScatter
from coconet.verification import verify_simulated

DP = cc.Group("dp")
N, M, K = cc.dims("N M K")
SIZES = [{"N": n, "M": m} for n, m in ((13, 11), (1, 1), (0, 3), (40, 41))]


def trust() -> cc.Program:
    """A step scaled by the norms of weight and update, as LAMB's trust ratio."""
    g = cc.tensor("g", cc.f32, (N, M), cc.Local(), DP)
    p = cc.tensor("p", cc.f32, (N, M), cc.Replicated(), DP)
    lr = cc.scalar("lr")
    avg = cc.all_reduce(g, "mean")
    u = avg + p * 0.01
    u_norm = cc.norm(u)
    p_norm = cc.norm(p)
    p1 = cc.update(p, p - u * (p_norm / (u_norm + 1e-6) * lr))
    return cc.program("trust", inputs=[g, p, lr], outputs=[p1, u_norm])


def row_norm(dim: int | tuple[int, ...] = -1) -> cc.Program:
    """A norm over dims behind an all-reduce, with a residual."""
    x = cc.tensor("x", cc.f32, (N, M, K), cc.Local(), DP)
    r = cc.tensor("r", cc.f32, (N, M, K), cc.Replicated(), DP)
    w = cc.tensor("w", cc.f32, (K,), cc.Replicated(), DP)
    total = cc.all_reduce(x) + r
    out = cc.rms_norm(total, w, dim=dim)
    return cc.program("row_norm", inputs=[x, r, w], outputs=[out, total])


def test_norms_move_before_the_gather_and_end_a_kernel() -> None:
    draft = trust().schedule()
    rs, ag = draft.split("avg")
    region, tail = draft.reorder(ag, ["u_norm", "p1"])
    result = draft.program
    assert [v.name for v in tail] == ["p1_ag", "p1"]  # u_norm needs no gather
    assert isinstance(result["u_norm"].type.layout, cc.Replicated)
    # p is not computed from the gather: its norm stays whole
    assert result["p_norm"].inputs[0] is result["p"]
    with pytest.raises(ScheduleError, match="known only at the end"):
        draft.fuse(rs, region, tail)
    u, u_norm = (next(v for v in region if v.name == name) for name in ("u", "u_norm"))
    inside = [v for v in region if v in u.inputs or v.name == "p_s"]
    draft.fuse(rs, inside, u, u_norm)
    report = verify_simulated(
        {"trust": draft.schedule},
        sizes=SIZES,
    )
    assert report.mismatches == ()


@pytest.mark.parametrize("by", [cc.FLAT, cc.ROWS(1), cc.ROWS(2), 0, 1])
def test_row_norms_by_every_cut(by: object) -> None:
    draft = row_norm().schedule()
    (total,) = (v for v in draft.program.values if v.name == "total")
    reduction = total.inputs[0]
    _, ag = draft.split(reduction, by)
    if by is cc.FLAT:
        with pytest.raises(ScheduleError, match="cannot be computed on slices"):
            draft.reorder(ag, ["out", "total"])
        return
    region, tail = draft.reorder(ag, ["out", "total"])
    assert sum(isinstance(v.op, AllGather) for v in tail) == 2
    assert any(isinstance(v.op, Reduce) for v in region)
    report = verify_simulated(
        {f"by {by}": draft.schedule},
        sizes=[
            dict(zip("NMK", s, strict=True)) for s in ((3, 5, 7), (1, 2, 70), (2, 0, 3))
        ],
    )
    assert report.mismatches == ()


def test_a_fold_along_the_cut_would_change_the_tree() -> None:
    draft = row_norm((1, 2)).schedule()
    reduction = draft.program["total"].inputs[0]
    _, ag = draft.split(reduction, 1)
    with pytest.raises(ScheduleError, match="folds dim 1, which is cut") as caught:
        draft.reorder(ag, ["out", "total"])
    assert "ROWS(k)" in str(caught.value)
    draft.undo()
    _, ag = draft.split(reduction, cc.ROWS(2))
    draft.reorder(ag, ["out", "total"])


def test_a_norm_does_not_move_over_the_sum_of_ranks() -> None:
    g = cc.tensor("g", cc.f32, (N, M), cc.Local(), DP)
    before = cc.all_reduce(cc.norm(g))
    after = cc.norm(cc.all_reduce(g))
    program = cc.program("both", inputs=[g], outputs=[before, after])
    draft = program.schedule()
    rs, _ = draft.split(draft.program["after"].inputs[0])
    assert isinstance(rs.op, ReduceScatter)
    with pytest.raises(ScheduleError, match="needs an all-gather"):
        draft.reorder("before", ["before"])
    with pytest.raises(ScheduleError, match="must be in memory"):
        draft.fuse(draft.program["before"].inputs[0], "before")


def test_what_needs_its_own_loop_is_not_fused() -> None:
    x = cc.tensor("x", cc.f32, (4, N, M), cc.Replicated(), DP)
    y = x * 2.0
    columns = cc.sum_(y, 0)
    turned = cc.transpose(y, (0, 2, 1)) + 1.0
    both = cc.concat([y, x], 0)
    outputs = [columns, turned, both]
    draft = cc.program("views", inputs=[x], outputs=outputs).schedule()
    with pytest.raises(ScheduleError, match="needs a loop of its own"):
        draft.fuse("y", "columns")
    with pytest.raises(ScheduleError, match="needs a loop of its own"):
        draft.fuse("y", "both")
    with pytest.raises(ScheduleError, match="reads other elements"):
        draft.fuse("y", draft.program["turned"].inputs[0])
    draft.fuse(draft.program["turned"].inputs[0], "turned")
    report = verify_simulated({"views": draft.schedule}, ranks=(1, 2), sizes=SIZES)
    assert report.mismatches == ()


def test_a_view_does_not_read_what_its_kernel_overwrites() -> None:
    x = cc.tensor("x", cc.f32, (N, N), cc.Replicated(), DP)
    x1 = cc.update(x, cc.transpose(x, (1, 0)))
    draft = cc.program("turn", inputs=[x], outputs=[x1]).schedule()
    with pytest.raises(ScheduleError, match="while others of its elements are read"):
        draft.fuse(draft.program["x1"].inputs[1], "x1")
    report = verify_simulated({"turn": draft.schedule}, ranks=(1, 2), sizes=[{"N": 11}])
    assert report.mismatches == ()

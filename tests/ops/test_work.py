"""What ops cost, by hand, for 1000 f32 elements on four ranks."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.ir import TensorType, Work, scalar_type
from coconet.ops import (
    OPS,
    AllGather,
    AllReduce,
    Cast,
    Concat,
    Dropout,
    Elementwise,
    Index,
    Input,
    Literal,
    Reduce,
    ReduceScatter,
    Reshape,
    Slice,
    Transpose,
    Update,
    Where,
)

DP = cc.Group("dp")
RANKS = 4


def typed(layout, dtype=cc.f32):
    return TensorType(dtype, (10, 100), layout, DP)


WHOLE, LOCAL = typed(cc.Replicated()), typed(cc.Local())
PIECE = typed(cc.Sliced(cc.FLAT))

CASES = [
    (Input(WHOLE), (), Work()),
    (Literal(2.0), (), Work()),
    (Elementwise("add"), (WHOLE, WHOLE), Work(1000, 12000)),
    (Elementwise("add"), (PIECE, PIECE), Work(250, 3000)),
    (Elementwise("mul"), (PIECE, scalar_type(cc.f64)), Work(250, 2000)),
    (Elementwise("add"), (scalar_type(cc.f64),) * 2, Work()),
    (Where(), (typed(cc.Replicated(), cc.bool_), WHOLE, WHOLE), Work(1000, 13000)),
    (Cast(cc.bf16), (PIECE,), Work(250, 1500)),
    (Dropout(0.5), (PIECE, scalar_type(cc.i64)), Work(250, 2000)),
    (Slice(cc.FLAT), (WHOLE,), Work()),
    (Update(), (PIECE, PIECE), Work(0, 2000)),
    (AllReduce(), (LOCAL,), Work(0, 8000, 6000, 2)),
    (ReduceScatter(), (LOCAL,), Work(0, 4000, 3000, 1)),
    (AllGather(), (PIECE,), Work(0, 4000, 3000, 1)),
    (Reduce("sum"), (WHOLE,), Work(1000, 4000)),
    (Reduce("norm_2"), (PIECE,), Work(250, 1000, 12, 1)),
    (Reduce("max", (0,)), (typed(cc.Sliced(0)),), Work(250, 1000, 1200, 1)),
    (Transpose((1, 0)), (WHOLE,), Work(0, 8000)),
    (Reshape((100, 10)), (PIECE,), Work(0, 2000)),
    (Index(1, 5, 20), (WHOLE,), Work(0, 1600)),
    (Concat(0), (WHOLE, WHOLE), Work(0, 16000)),
]


@pytest.mark.parametrize(("op", "inputs", "need"), CASES, ids=lambda x: str(x)[:30])
def test_work(op, inputs, need):
    assert op.work(RANKS, *inputs) == need


def test_every_op_is_here():
    assert {type(op) for op, _, _ in CASES} == set(OPS)


def test_work_adds_up():
    assert Work(1, 2, 3, 4) + Work(10, 20, 30, 40) == Work(11, 22, 33, 44)

"""Symbolic extents and their numbers; groups; types as text."""

import pytest

from coconet.ir import (
    Dim,
    Group,
    Local,
    Location,
    Replicated,
    Sliced,
    TensorType,
    Work,
    bf16,
    bind_shape,
    dims,
    f32,
    f64,
    i64,
    numel,
    scalar_type,
)


def test_dims_are_equal_by_name():
    B, S = dims("B S")
    assert (Dim("B"), Dim("S")) == (B, S)
    assert B != S
    assert B != 1
    assert repr(B) == "B"


@pytest.mark.parametrize("name", ["", "1", "a b", "a-b"])
def test_a_dim_is_an_identifier(name):
    with pytest.raises(ValueError, match="identifier"):
        Dim(name)


def test_bind_shape_replaces_symbols():
    B, H = dims("B H")
    assert bind_shape((B, 3, H), {"B": 2, "H": 0}) == (2, 3, 0)
    with pytest.raises(KeyError):
        bind_shape((B,), {})


@pytest.mark.parametrize(("shape", "count"), [((), 1), ((0,), 0), ((2, 3), 6)])
def test_numel(shape, count):
    assert numel(shape) == count


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_a_group_has_a_positive_number_of_ranks(size):
    with pytest.raises(ValueError, match="positive"):
        Group("dp", size)


def test_groups_print_as_their_constructor():
    assert repr(Group("dp")) == "Group('dp')"
    assert repr(Group("tp", 4)) == "Group('tp', 4)"
    assert Group("dp") == Group("dp")
    assert Group("dp") != Group("dp", 2)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (TensorType(f32, (Dim("N"),), Local(), Group("dp")), "f32[N] Local"),
        (TensorType(bf16, (), Replicated(), Group("dp")), "bf16[] Replicated"),
        (TensorType(f32, (Dim("B"), 3), Sliced(1), Group("dp")), "f32[B, 3] Sliced(1)"),
        (scalar_type(f64), "f64 scalar"),
        (scalar_type(i64), "i64 scalar"),
    ],
)
def test_type_text(type_, text):
    assert str(type_) == text


def test_with_layout_changes_nothing_else():
    type_ = TensorType(f32, (3,), Local(), Group("dp"))
    assert type_.with_layout(Replicated()).with_layout(Local()) == type_


def test_work_adds_part_by_part():
    assert Work(1, 2, 3, 4) + Work(10, 20, 30, 40) == Work(11, 22, 33, 44)


def test_a_location_is_short():
    assert str(Location("/a/b/train.py", 12)) == "train.py:12"

"""Small programs, and how a refused step is judged, for the tests of schedules."""

from __future__ import annotations

import pytest

import coconet as cc
from coconet.errors import ScheduleError

__all__ = ["DP", "M", "N", "names", "program", "reduced", "refused", "tensor"]

DP = cc.Group("dp")
N, M = cc.dims("N M")


def tensor(name, layout=None, shape=(N,)):
    return cc.tensor(name, cc.f32, shape, layout or cc.Replicated(), DP)


def program(*outputs, inputs):
    return cc.program("k", inputs=inputs, outputs=list(outputs))


def refused(act):
    """Check that a step is refused with a whole message; return the error."""
    with pytest.raises(ScheduleError) as caught:
        act()
    problem = caught.value
    assert str(problem.got)
    assert str(problem.need)
    return problem


def reduced(shape=(N,)):
    """An all-reduce and what may follow it."""
    g, m, r = tensor("g", cc.Local(), shape), tensor("m", shape=shape), tensor("r")
    return g, m, r, cc.all_reduce(g)


def names(values):
    return [value.name for value in values]

"""Every number, size, time and name that a user gives is refused where it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import coconet as cc
from coconet.backends.c.words import Knobs
from coconet.cli.main import main
from coconet.errors import CoconetError
from coconet.options import checked_count, checked_counts, checked_seconds
from coconet.runtime.testing import Fault, run_ranks
from coconet.verification import verify_simulated
from coconet.workloads.optimizers import adam, sgd

DP = cc.Group("dp")
N, M = cc.dims("N M")
X = cc.tensor("x", cc.f32, (N, M), cc.Replicated(), DP)
G = cc.tensor("g", cc.f32, (N, M), cc.Local(), DP)
R = cc.tensor("r", cc.f32, (4, 6), cc.Replicated(), DP)
WRITTEN = {"sgd": sgd.schedule().schedule}

Options = dict[str, Callable[[Any], object]]

FROM_ONE: Options = {
    "Group size": lambda n: cc.Group("g", n),
    "Knobs block_elements": lambda n: Knobs(block_elements=n),
    "Knobs round_elements": lambda n: Knobs(round_elements=n),
    "run_ranks n": lambda n: run_ranks(n, main),
    "spawn ranks": lambda n: cc.spawn(main, n),
    "verify ranks": lambda n: cc.verify(sgd, ranks=[n]),
    "verify_simulated ranks": lambda n: verify_simulated(WRITTEN, ranks=[2, n]),
    "verify_simulated seeds": lambda n: verify_simulated(WRITTEN, seeds=n),
}
FROM_ZERO: Options = {
    "Fault rank": lambda n: Fault(n),
    "Knobs inbox_bytes": lambda n: Knobs(inbox_bytes=n),
    "Knobs stream_bytes": lambda n: Knobs(stream_bytes=n),
    "Knobs threads": lambda n: Knobs(threads=n),
    "ROWS k": lambda n: cc.ROWS(n),
    "Rooted root": lambda n: cc.Rooted(n),
    "Sliced dim": lambda n: cc.Sliced(n),
    "concat dim": lambda n: cc.concat([R, R], n),
    "empty shape": lambda n: cc.empty((2, n), cc.f32),
    "index dim": lambda n: cc.index(R, n, 1),
    "index length": lambda n: cc.index(R, 0, 1, n),
    "index start": lambda n: cc.index(R, 0, n),
    "reduce_scatter cut": lambda n: cc.reduce_scatter(G, "sum", n),
    "reshape shape": lambda n: cc.reshape(R, (24, n)),
    "slice_ cut": lambda n: cc.slice_(X, n),
    "split by": lambda n: adam.schedule().split("avg", n),
    "tensor shape": lambda n: cc.tensor("x", cc.f32, (n,), cc.Local(), DP),
    "verify sizes": lambda n: cc.verify(sgd, ranks=[1], sizes=[{"N": n}]),
    "verify_simulated seed": lambda n: verify_simulated(WRITTEN, seed=n),
    "zeros shape": lambda n: cc.zeros([n], cc.f32),
}
WHOLE: Options = {
    "max_ dim": lambda n: cc.max_(X, n),
    "norm dim": lambda n: cc.norm(X, (0, n)),
    "transpose order": lambda n: cc.transpose(X, (0, n)),
}
SECONDS: Options = {
    "init timeout_s": lambda s: cc.init(timeout_s=s),
    "run_ranks timeout_s": lambda s: run_ranks(1, main, timeout_s=s),
    "spawn timeout_s": lambda s: cc.spawn(main, 1, timeout_s=s),
}
LISTS: Options = {
    "dims": cc.dims,
    "empty shape": lambda x: cc.empty(x, cc.f32),
    "library state": lambda x: cc.library(adam, state=x),
    "program inputs": lambda x: cc.program("k", inputs=x, outputs=[X + 1.0]),
    "program outputs": lambda x: cc.program("k", inputs=[X], outputs=x),
    "reshape shape": lambda x: cc.reshape(X, x),
    "tensor shape": lambda x: cc.tensor("x", cc.f32, x, cc.Local(), DP),
    "verify ranks": lambda x: cc.verify(sgd, ranks=x),
    "verify sizes": lambda x: cc.verify(sgd, ranks=[1], sizes=x),
}
NAMES: Options = {
    "Dim": cc.ir.Dim,
    "program name": lambda x: cc.program(x, inputs=[X], outputs=[X + 1.0]),
    "scalar name": cc.scalar,
    "tensor name": lambda x: cc.tensor(x, cc.f32, (N,), cc.Local(), DP),
}
CHOICES: Options = {
    "all_reduce op": lambda x: cc.all_reduce(G, x),
    "cast dtype": lambda x: cc.cast(X, x),
    "compile backend": lambda x: cc.compile(sgd, backend=x),
    "compile group": lambda x: cc.compile(sgd, group=x),
    "compile what": cc.compile,
    "empty dtype": lambda x: cc.empty((1,), x),
    "empty group": lambda x: cc.empty((1,), cc.f32, x),
    "norm ord": lambda x: cc.norm(X, ord=x),
    "reduce_scatter op": lambda x: cc.reduce_scatter(G, x),
    "scalar dtype": lambda x: cc.scalar("s", x),
    "tensor dtype": lambda x: cc.tensor("x", x, (N,), cc.Local(), DP),
    "tensor group": lambda x: cc.tensor("x", cc.f32, (N,), cc.Local(), x),
    "tensor layout": lambda x: cc.tensor("x", cc.f32, (N,), x, DP),
    "verify what": cc.verify,
}

NO_NUMBERS = (True, False, "1", "", 1.5, 1.0, b"1", [1], {})
TABLE: list[tuple[Options, tuple[object, ...]]] = [
    (FROM_ONE, (*NO_NUMBERS, 0, -1, np.int64(-3))),
    (FROM_ZERO, (*NO_NUMBERS, -1, -(2**40))),
    (WHOLE, (True, False, "1", "", b"1", 1.5, [True], ["0"])),
    (SECONDS, (True, False, "1", "soon", 0, 0.0, -1.0, float("nan"), float("inf"), [])),
    (LISTS, (3, True, "mv", 1.5, object())),
    (NAMES, (3, True, None, 1.5, "", "a b", "1x", "if", "x\n", ["x"])),
    (CHOICES, (3, -1, True, False, "median", "", 1.5, object)),
]
CASES = [
    pytest.param(give, bad, id=f"{name}={bad!r:.20}")
    for options, wrong in TABLE
    for name, give in options.items()
    for bad in wrong
    # a string is how dims are given
    if not (name == "dims" and isinstance(bad, str))
]


@pytest.mark.parametrize(("give", "bad"), CASES)
def test_what_cannot_be_meant_is_refused(give, bad):
    with pytest.raises((TypeError, ValueError, CoconetError)) as caught:
        give(bad)
    text = str(caught.value)
    names = repr(bad)[:2], getattr(bad, "__name__", "?"), type(bad).__name__
    assert any(name in text for name in names), text


@pytest.mark.parametrize("number", [1, 7, np.int64(3), np.uint8(2)])
def test_whole_numbers_are_numbers_of_any_kind(number):
    assert checked_count("n", number) == int(number)
    assert type(checked_count("n", number)) is int
    assert checked_counts("n", (number, 5)) == (int(number), 5)
    assert checked_seconds("s", number) == float(number)


def test_limits_are_said():
    with pytest.raises(ValueError, match="from 2 on, got 1"):
        checked_count("n", 1, least=2)
    with pytest.raises(ValueError, match="at most 1e6 s, got 1000001"):
        checked_seconds("s", 1_000_001)
    assert checked_seconds("s", 0, least=0) == 0.0
    assert checked_seconds("s", np.float32(0.5)) == 0.5


COMMANDS = [
    *(["demo", "--ranks"], ["run", "script.py", "-n"], ["bench", "call", "--ranks"]),
    *(["verify", "k.py:k", "--ranks"], ["show", "k.py:k", "--ranks"]),
    ["bench", "adam", "--sizes"],
]


@pytest.mark.parametrize("bad", ["0", "-1", "two", "1.5", "True", ""])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_command_line_refuses_them_too(command, bad, capsys):
    words = command if command[0] != "run" else ["run", "-n", bad, "script.py"]
    with pytest.raises(SystemExit) as caught:
        main([*words, bad] if words is command else words)
    assert caught.value.code == 2
    assert command[-1] in capsys.readouterr().err

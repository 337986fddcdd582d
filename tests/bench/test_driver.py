"""Crews of workers: what they answer, how they fail, and that none is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from coconet.bench.driver import LEAST_TURNS, TURNS, Crew, open_crews, take_turns
from coconet.bench.engines.task import Task
from coconet.errors import PeerFailed

GLOO = "gloo+torch-adam-fused"
ADAM = Task("adam", "f32")


class _Scripted(Crew):
    """A crew without workers, whose steps take a given time."""

    def __init__(self, name: str, step_s: float, log: list[str]) -> None:
        super().__init__(name, 1, Path(), ADAM)
        self._step_s, self._log = step_s, log

    def step_s(self, iterations: int) -> float:
        self._log.append(self.name)
        assert iterations == 1 or iterations * self._step_s <= 0.01
        return self._step_s


def test_turns_rotate_and_every_engine_gets_as_many() -> None:
    log: list[str] = []
    crews = [_Scripted(name, 0.001, log) for name in "abc"]
    samples = take_turns(crews, time_box_s=60)
    assert samples == {name: [0.001] * TURNS for name in "abc"}
    turns = "".join(log[-3 * TURNS :])
    assert turns[:12] == "abcbcacababc"


def test_a_time_box_that_is_over_still_gets_the_least_turns() -> None:
    samples = take_turns([_Scripted("a", 1.0, [])], time_box_s=-1)
    assert samples == {"a": [1.0] * LEAST_TURNS}


@pytest.mark.multiproc
def test_a_killed_worker_is_named_and_none_is_left() -> None:
    pytest.importorskip("torch")
    with open_crews([GLOO], 2, ADAM) as (crew,):
        pids = crew.pids
        cores = sorted(os.sched_getaffinity(0))
        pinned = [os.sched_getaffinity(pid) for pid in pids]
        assert pinned == [{cores[rank % len(cores)]} for rank in range(2)]
        assert crew.library.startswith("torch ")
        crew.ask("prepare", elements=10)
        assert crew.step_s(3) > 0
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(PeerFailed, match="rank 1 failed in 'run'") as caught:
            crew.step_s(1)
        assert caught.value.ranks == (1,)
        assert "exit code -9" in str(caught.value)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.multiproc
def test_a_worker_that_raises_is_quoted() -> None:
    pytest.importorskip("torch")
    with open_crews([GLOO], 1, ADAM) as (crew,):
        with pytest.raises(PeerFailed, match="failed in 'prepare'") as caught:
            crew.ask("prepare", elements=-1)
        assert caught.value.ranks == (0,)
        assert str(caught.value.got).startswith("exit code 1\n")
        assert "ValueError: " in str(caught.value.got)

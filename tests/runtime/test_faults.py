"""A rank that dies, stops, leaves or raises: who is named, how fast, and what is left.

Numbers F1, F2, F4, F8 and F17 are the faults that the runtime is specified against.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.multiproc
ARRIVAL = "the arrival of program test (test.py:1)"
GATHER = "all_gather(p1) (test.py:2)"
# Detection takes about 10 ms; the bound allows for a busy machine.
DETECT_S = 3.0


def survivors(ended, victim: int) -> list[dict[str, Any]]:
    """Return what the ranks beside the victim said of the fault; all ended badly."""
    facts: list[dict[str, Any]] = []
    for rank, each in enumerate(ended):
        if rank != victim:
            assert each.returncode == 1, each.stderr
            ready, fact = each.said
            assert ready == "ready"
            facts.append(fact)
    return facts


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("when", ["before", "inside"])
def test_a_killed_rank_is_named(run_all, victim: int, when: str) -> None:
    shared = set(os.listdir("/dev/shm"))
    ended = run_all("fault", victim, "kill", when, size=3)
    assert ended[victim].returncode == -signal.SIGKILL
    for fact in survivors(ended, victim):
        assert (fact["kind"], fact["ranks"]) == ("PeerFailed", [victim])
        assert f"rank {victim} died" in fact["what"]
        # One that was slow to see that all have arrived may find the run ended there.
        assert ARRIVAL in fact["what"] or (when == "inside" and GATHER in fact["what"])
        assert fact["seconds"] < DETECT_S
        assert fact["then"] == ("PeerFailed" if when == "before" else "poisoned")
    assert set(os.listdir("/dev/shm")) == shared


@pytest.mark.parametrize(
    ("action", "phrase", "got", "code"),
    [
        ("leave", "rank 1 finished", "it left after 11 calls", 0),
        ("exit", "rank 1 died", "its process ended after 11 calls", 0),
        ("raise", "rank 1 raised", "ValueError: no such file", 1),
    ],
)
def test_a_rank_that_ends_early_is_named(
    run_all, action: str, phrase: str, got: str, code: int
) -> None:
    ended = run_all("fault", 1, action, "before", size=3)
    assert ended[1].returncode == code
    for fact in survivors(ended, 1):
        assert (fact["kind"], fact["ranks"]) == ("PeerFailed", [1])
        assert phrase in fact["what"]
        assert got in fact["got"]
        assert fact["seconds"] < DETECT_S
        assert fact["then"] == "PeerFailed"


@pytest.mark.parametrize("when", ["before", "inside"])
def test_a_stopped_rank_is_named_with_its_state(run, when: str) -> None:
    run.start_all("fault", 1, "stop", when, 1, size=3)
    stopped = run.processes[1]
    for rank in (0, 2):
        run.processes[rank].wait(30)
    stopped.send_signal(signal.SIGCONT)
    ended = run.end()
    for fact in survivors(ended, 1):
        assert (fact["kind"], fact["ranks"]) == ("CollectiveTimeout", [1])
        assert (ARRIVAL if when == "before" else GATHER) in fact["what"]
        assert "within 1 s" in fact["what"]
        assert f"pid {stopped.pid}, stopped, state T" in fact["got"]
        assert fact["then"] == ("CollectiveTimeout" if when == "before" else "poisoned")
    late = ended[1].said[-1]
    assert (late["kind"], late["ranks"]) == ("CollectiveTimeout", [1])
    assert "gave up waiting for this one" in late["what"]


def test_a_long_wait_is_reported_and_again_at_twice_the_time(run) -> None:
    run.start_all("fault", 1, "stop", "before", 1, size=2, COCONET_WARN="0.2")
    run.processes[0].wait(30)
    run.processes[1].send_signal(signal.SIGCONT)
    lines = [
        line
        for line in run.end()[0].stderr.splitlines()
        if line.startswith("coconet: rank 0 has waited")
    ]
    assert [line.split()[5] for line in lines] == ["0.2", "0.4", "0.8"]
    assert ARRIVAL in lines[0]
    assert f"rank 1: pid {run.processes[1].pid}, stopped, state T" in lines[0]


def test_errors_that_all_ranks_raise_do_not_hide_each_other(run_all) -> None:
    for ended in run_all("differ", "text", "uncaught", size=3):
        assert ended.returncode == 1
        assert "RanksDisagree: rank 1 and rank 0 call" in ended.stderr
        assert "PeerFailed" not in ended.stderr


def test_an_interrupt_ends_the_wait_for_an_arrival(
    run_all,
) -> None:
    first, second = run_all("interrupt", size=2)
    assert first.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in first.stderr
    assert second.returncode == 0, second.stderr
    (fact,) = second.said
    assert (fact["kind"], fact["ranks"]) == ("PeerFailed", [0])
    assert "KeyboardInterrupt" in fact["got"]


def test_an_interrupt_ends_the_wait_in_a_barrier(run) -> None:
    run.start_all("interrupt_barrier", size=2)
    waiting, stopped = run.processes
    assert waiting.stdout is not None
    assert "ready" in waiting.stdout.readline()
    while _state(stopped.pid) != "T":
        time.sleep(0.01)
    waiting.send_signal(signal.SIGUSR1)  # a handler that raises nothing ends nothing
    assert "handled" in waiting.stdout.readline()
    began = time.monotonic()
    waiting.send_signal(signal.SIGINT)
    waiting.wait(30)
    assert time.monotonic() - began < DETECT_S
    stopped.send_signal(signal.SIGCONT)
    first, second = run.end()
    assert first.returncode == 0, first.stderr
    assert "ctypes" not in first.stderr
    caught, poisoned, after = first.said
    assert caught == "interrupted"
    assert poisoned["kind"] == "StatePoisoned"
    assert poisoned["got"] == "KeyboardInterrupt in the middle of a call"
    for fact in (after, second.said[-1]):
        assert (fact["kind"], fact["ranks"]) == ("PeerFailed", [0])
        assert fact["got"] == "interrupted by a signal"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("victim", [-1, 0, 1])
def test_ranks_with_threads_compute_and_survive_their_peers(run_all, victim) -> None:
    ended = run_all("pools", 3, 200, victim, size=2)
    for rank, each in enumerate(ended):
        if rank == victim:
            assert each.returncode == -signal.SIGKILL
            continue
        assert each.returncode == 0, each.stderr
        first, *faults = each.said
        assert first["wrong"] == 0
        assert first["threads"] >= 4  # with the watch
        assert len(faults) == (victim >= 0)
        for fact in faults:
            assert (fact["kind"], fact["ranks"]) == ("PeerFailed", [victim])
            assert fact["seconds"] < DETECT_S
            assert fact["left"] == first["threads"] - 3


def test_memory_is_not_used_again_while_a_late_peer_may_write(run_all) -> None:
    *survivors, victim = run_all("late", size=3)
    assert victim.returncode == -signal.SIGKILL
    for ended in survivors:
        assert ended.returncode == 0, ended.stderr
        assert ended.said == [["PeerFailed", [1.0]]]


def test_a_run_works_right_after_a_killed_one(run_all) -> None:
    run_all("fault", 0, "kill", "inside", size=2)
    for ended in run_all("stress", 100, size=2):
        assert ended.said[0]["wrong"] == 0


def test_nothing_listens_on_a_network(run) -> None:
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6")]
    before = [table.read_text().count(" 0A ") for table in tables]
    run.start_all("fault", 1, "stop", "before", 1, size=2)
    assert run.processes[0].stdout is not None
    assert "ready" in run.processes[0].stdout.readline()
    assert [table.read_text().count(" 0A ") for table in tables] == before

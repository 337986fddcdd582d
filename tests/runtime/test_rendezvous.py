"""Ranks that are missing, there twice, of another size or another version."""

import os
import socket
import threading

import pytest

from coconet.errors import RendezvousError
from coconet.runtime.rendezvous import address_of, meet, myself
from coconet.settings import Launch

pytestmark = pytest.mark.multiproc
FAST_S = 5.0  # at once, beside starting an interpreter


def failures(ended) -> list[dict[str, object]]:
    facts: list[dict[str, object]] = []
    for each in ended:
        assert each.returncode == 1, (each.stdout, each.stderr)
        (fact,) = each.said
        assert fact["kind"] == "RendezvousError"
        facts.append(fact)
    return facts


def test_all_meet(run_all) -> None:
    ended = run_all("meet", 20, size=4)
    assert [each.said for each in ended] == [[[rank, 4]] for rank in range(4)]


def test_two_runs_at_once_do_not_mix(run, other_run) -> None:
    for rank in range(2):
        run.start("meet", 20, rank=rank, size=2)
        other_run.start("meet", 20, rank=rank, size=2)
    for each in (run, other_run):
        assert [ended.said for ended in each.end()] == [[[0, 2]], [[1, 2]]]


def test_missing_ranks_are_named(run, other_run) -> None:
    for rank in (0, 2):
        run.start("meet", 3, rank=rank, size=4)
    other_run.start("meet", 1, rank=1, size=2)  # both runs wait at the same time
    first, third = run.processes
    for fact in failures(run.end()):
        assert fact["what"].startswith("ranks 1, 3 of 4 did not join within 3 s")
        assert fact["got"] == f"joined: 0 (pid {first.pid}), 2 (pid {third.pid})"
        assert fact["ranks"] == [1, 3]
    (fact,) = failures(other_run.end())
    assert fact["what"].startswith("rank 0 of 2 did not join within 1 s")
    assert fact["ranks"] == [0]


@pytest.mark.parametrize("there", [(0, 0), (0, 1, 1)])
def test_a_rank_there_twice_fails_all_at_once(run, there: tuple[int, ...]) -> None:
    twice = there[-1]
    for rank in there:
        run.start("meet", 30, rank=rank, size=3)
    pids = {process.pid for process in run.processes}
    for fact in failures(run.end()):
        assert fact["what"] == f"two processes say they are rank {twice}"
        assert {int(word) for word in fact["got"].split() if word.isdigit()} <= pids
        assert fact["ranks"] == [twice]
        assert fact["seconds"] < FAST_S


def test_ranks_that_disagree_on_the_size_are_told(run) -> None:
    run.start("meet", 30, rank=0, size=2)
    run.start("meet", 30, rank=1, size=3)
    for fact in failures(run.end()):
        assert "disagree on its size" in fact["what"]
        assert fact["got"].startswith("3 on rank 1")
        assert fact["need"].startswith("2, as on rank 0")
        assert fact["seconds"] < FAST_S


def test_ranks_of_two_versions_are_told(run) -> None:
    run.start("meet", 30, "1.0", rank=0, size=2)
    run.start("meet", 30, "1.1", rank=1, size=2)
    for fact in failures(run.end()):
        assert "disagree on its version" in fact["what"]
        assert fact["got"].startswith("1.1 on rank 1")
        assert fact["need"].startswith("1.0, as on rank 0")


def test_junk_on_the_socket_is_ignored(run) -> None:
    run.start("meet", 20, rank=0, size=2)
    name = address_of(run.run)
    for junk in (
        b"",
        b"x",
        b"[1, 2]",
        b"{}",
        b"9" * 100_000,
        b'{"rank": 1}',
        b"[" * 60_000,
    ):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            while stranger.connect_ex(name):
                pass
            if junk:
                stranger.send(junk)
    run.start("meet", 20, rank=1, size=2)
    assert [ended.said for ended in run.end()] == [[[0, 2]], [[1, 2]]]


def test_a_refused_rank_leaves_no_descriptors() -> None:
    before = os.listdir("/proc/self/fd")
    errors: list[str] = []

    def join(rank: int) -> None:
        segment = os.memfd_create("test")
        me = myself(Launch(rank, 3, run), segment=segment, segment_bytes=4096)
        try:
            meet(me, timeout_s=20)
        except RendezvousError as error:
            errors.append(error.what)
        me.close()
        os.close(segment)

    run = f"twice-{os.getpid()}"
    threads = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == ["two processes say they are rank 1"] * 3
    assert os.listdir("/proc/self/fd") == before

"""How the ranks of a run find each other on one host.

Rank 0 listens on an abstract unix socket named from the user and the run.  Every other
rank says who it is and hands over its memory and a pidfd of itself; once all have, rank
0 hands everything to everybody.  Nothing has a name in a file system, nothing listens
on a network, and what a rank says is JSON in one message of bounded size.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, cast

from coconet.errors import RendezvousError
from coconet.runtime.library import ABI, MAX_RANKS
from coconet.settings import Launch

__all__ = ["Hello", "Member", "address_of", "meet", "myself"]

MESSAGE_BYTES = 1 << 16
RETRY_S = 0.01
REMIND_S = 5.0
# A rank that joined waits longer than rank 0, whose message names who is missing.
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Hello:
    """What a rank says about itself; cpus is a bit mask in hex."""

    rank: int
    size: int
    run: str
    version: str
    abi: int
    pid: int
    cpus: str
    segment_bytes: int

    def __str__(self) -> str:
        """Name the rank and its process."""
        return f"{self.rank} (pid {self.pid})"


@dataclass(frozen=True, slots=True)
class Member:
    """A rank of the run: what it said, and its file descriptors, which are ours."""

    hello: Hello
    segment: int
    pidfd: int

    def close(self) -> None:
        """Close both descriptors."""
        os.close(self.segment)
        os.close(self.pidfd)


def myself(place: Launch, *, segment: int, segment_bytes: int) -> Member:
    """Describe this process, with descriptors of its own on its memory and itself."""
    try:
        version = metadata.version("coconet")
    except metadata.PackageNotFoundError:
        version = "not installed"
    hello = Hello(
        rank=place.rank,
        size=place.size,
        run=place.run,
        version=version,
        abi=ABI,
        pid=os.getpid(),
        cpus=hex(sum(1 << cpu for cpu in os.sched_getaffinity(0))),
        segment_bytes=segment_bytes,
    )
    return Member(hello, os.dup(segment), os.pidfd_open(os.getpid()))


def meet(me: Member, *, timeout_s: float) -> list[Member]:
    """Return the members of the run by rank, `me` in its place.

    Units   seconds
    Blocks  until all ranks are there
    Raises  RendezvousError: a rank is missing, there twice, or of another run
    """
    name = address_of(me.hello.run)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as own:
        if me.hello.rank == 0 and _bind(own, name):
            own.listen(MAX_RANKS)
            return _Gathering(own, me, timeout_s).run()
        # Also a second rank 0: the first one hears it and tells everybody.
        return _join(own, name, me, timeout_s)


def address_of(run: str) -> str:
    """Return the abstract address of a run; a run's name may be long."""
    return f"\0coconet-{os.getuid()}-{hashlib.sha256(run.encode()).hexdigest()[:32]}"


def _bind(own: socket.socket, name: str) -> bool:
    try:
        own.bind(name)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


class _Gathering:
    """Rank 0's side: it collects the others until all are there or one is wrong."""

    def __init__(self, listener: socket.socket, me: Member, timeout_s: float) -> None:
        self.listener = listener
        self.mine = me.hello
        self.timeout_s = timeout_s
        self.began = time.monotonic()
        self.remind = self.began + REMIND_S
        self.poll = select.poll()
        self.poll.register(listener, select.POLLIN)
        self.sockets: dict[int, socket.socket] = {}  # by file descriptor
        self.rank_of: dict[int, int] = {}  # likewise, once it said so
        self.members: dict[int, Member] = {0: me}  # by rank

    def run(self) -> list[Member]:
        """Gather all and hand all to everybody, or tell everybody what is wrong."""
        try:
            while len(self.members) < self.mine.size:
                self._wait()
        except BaseException as error:
            if isinstance(error, RendezvousError):
                self._tell({"error": _fields(error)})
            for rank, member in self.members.items():
                if rank != 0:
                    member.close()
            raise
        else:
            members = [self.members[rank] for rank in range(self.mine.size)]
            hellos = [dataclasses.asdict(member.hello) for member in members]
            self._tell({"ranks": hellos}, members)
            return members
        finally:
            for connection in self.sockets.values():
                connection.close()

    def _wait(self) -> None:
        now = time.monotonic()
        missing = [q for q in range(self.mine.size) if q not in self.members]
        joined = ", ".join(str(self.members[q].hello) for q in sorted(self.members))
        if now >= self.began + self.timeout_s:
            raise RendezvousError(
                f"{_ranks(missing)} of {self.mine.size} did not join"
                f" within {self.timeout_s:g} s",
                got=f"joined: {joined}",
                need=f"{self.mine.size} processes of run {self.mine.run}",
                ranks=tuple(missing),
            )
        if now >= self.remind:
            self.remind = now + 2 * (now - self.began)
            _say(f"waiting for {_ranks(missing)}; joined: {joined}")
        until = min(self.began + self.timeout_s, self.remind) - now
        for descriptor, _ in self.poll.poll(max(1.0, until * 1000)):
            if descriptor == self.listener.fileno():
                self._accept()
            else:
                self._hear(descriptor)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        if _peer_uid(connection) != os.getuid():
            connection.close()
            return
        self.sockets[connection.fileno()] = connection
        self.poll.register(connection, select.POLLIN)

    def _hear(self, descriptor: int) -> None:
        """Take the hello of a rank, or notice that it is gone."""
        try:
            said, descriptors = _receive(self.sockets[descriptor])
        except OSError:  # it died with something of ours unread
            said, descriptors = None, []
        try:
            if isinstance(said, dict) and len(descriptors) == 2:
                hello = _hello(cast("dict[str, Any]", said), self.mine)
                self._check(hello)
                self.rank_of[descriptor] = hello.rank
                self.members[hello.rank] = Member(hello, *descriptors)
                descriptors = []
                return
        finally:
            for extra in descriptors:
                os.close(extra)
        self.poll.unregister(descriptor)
        self.sockets.pop(descriptor).close()
        if (rank := self.rank_of.pop(descriptor, None)) is not None:
            raise RendezvousError(
                f"rank {self.members[rank].hello} ended before all had joined",
                ranks=(rank,),
            )

    def _check(self, hello: Hello) -> None:
        for name in ("size", "version", "abi", "run"):
            got, need = getattr(hello, name), getattr(self.mine, name)
            if got != need:
                raise RendezvousError(
                    f"the ranks of a run disagree on its {name}",
                    got=f"{got} on rank {hello}",
                    need=f"{need}, as on rank {self.mine}",
                    ranks=(hello.rank,),
                )
        if not 0 <= hello.rank < hello.size:
            raise RendezvousError(
                f"there is no rank {hello} in a run of {hello.size}",
                need=f"a rank from 0 to {hello.size - 1}",
                ranks=(hello.rank,),
            )
        if (other := self.members.get(hello.rank)) is not None:
            raise RendezvousError(
                f"two processes say they are rank {hello.rank}",
                got=f"pid {other.hello.pid} and pid {hello.pid}",
                need="each rank once; is another run of this name alive?",
                ranks=(hello.rank,),
            )

    def _tell(self, said: dict[str, Any], members: Sequence[Member] = ()) -> None:
        descriptors = [fd for m in members for fd in (m.segment, m.pidfd)]
        for connection in self.sockets.values():
            # One that is gone by now is its supervisor's or its own concern.
            with contextlib.suppress(OSError):
                _send(connection, said, descriptors)


def _join(own: socket.socket, name: str, me: Member, timeout_s: float) -> list[Member]:
    """Say hello to rank 0 and take what it hands out."""
    began = time.monotonic()
    _connect(own, name, me.hello, timeout_s)
    own.settimeout(max(0.0, began + timeout_s - time.monotonic()) + GRACE_S)
    try:
        _send(own, dataclasses.asdict(me.hello), [me.segment, me.pidfd])
        said, descriptors = _receive(own)
    except OSError as error:
        raise RendezvousError("rank 0 did not answer", got=error, ranks=(0,)) from error
    if not isinstance(said, dict):
        raise RendezvousError("rank 0 ended before all had joined", ranks=(0,))
    answer = cast("dict[str, Any]", said)
    if "error" in answer:
        fields = answer["error"]
        raise RendezvousError(**fields | {"ranks": tuple(fields["ranks"])})
    hellos = [_hello(fields, me.hello) for fields in answer["ranks"]]
    pairs = zip(descriptors[::2], descriptors[1::2], strict=True)
    members = [Member(h, *pair) for h, pair in zip(hellos, pairs, strict=True)]
    members[me.hello.rank].close()
    members[me.hello.rank] = me
    return members


def _connect(own: socket.socket, name: str, mine: Hello, timeout_s: float) -> None:
    began = time.monotonic()
    remind = began + REMIND_S
    while True:
        own.settimeout(max(RETRY_S, began + timeout_s - time.monotonic()))
        try:
            own.connect(name)
            break
        except (ConnectionRefusedError, BlockingIOError, TimeoutError):
            now = time.monotonic()
        if now >= began + timeout_s:
            raise RendezvousError(
                f"rank 0 of {mine.size} did not join within {timeout_s:g} s",
                got=f"this is rank {mine}",
                need=f"{mine.size} processes of run {mine.run}",
                ranks=(0,),
            )
        if now >= remind:
            remind = now + 2 * (now - began)
            _say(f"rank {mine} is waiting for rank 0")
        time.sleep(RETRY_S)
    if (uid := _peer_uid(own)) != os.getuid():
        raise RendezvousError(
            "the address of this run belongs to another user",
            got=f"uid {uid}",
            need=f"uid {os.getuid()}",
        )


def _hello(fields: dict[str, Any], mine: Hello) -> Hello:
    """Build a hello from JSON whose fields have the types of ours."""
    ours = dataclasses.asdict(mine)
    if fields.keys() != ours.keys() or any(
        not isinstance(fields[name], type(value)) for name, value in ours.items()
    ):
        raise RendezvousError(
            "the ranks of a run have different versions of coconet",
            got=str(fields.get("version")),
            need=mine.version,
        )
    return Hello(**fields)


def _fields(error: RendezvousError) -> dict[str, Any]:
    return {
        "what": error.what,
        "got": str(error.got),
        "need": str(error.need),
        "fix": error.fix,
        "ranks": error.ranks,
    }


def _send(
    connection: socket.socket, said: dict[str, Any], descriptors: Sequence[int]
) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    connection.sendmsg([json.dumps(said).encode()], [rights] if descriptors else [])


def _receive(connection: socket.socket) -> tuple[object, list[int]]:
    """Return a message as JSON and its descriptors; None for the end, or junk."""
    room = socket.CMSG_SPACE(2 * MAX_RANKS * 4)
    data, ancillary, flags, _ = connection.recvmsg(
        MESSAGE_BYTES, room, socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) // 4 * 4])
    try:
        is_whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        return (json.loads(data) if is_whole else None), list(descriptors)
    except (ValueError, RecursionError):
        return None, list(descriptors)


def _peer_uid(connection: socket.socket) -> int:
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", packed)[1]


def _ranks(ranks: Iterable[int]) -> str:
    names = [str(rank) for rank in ranks]
    return ("rank " if len(names) == 1 else "ranks ") + ", ".join(names)


def _say(line: str) -> None:
    print(f"coconet: {line}", file=sys.stderr, flush=True)

"""Folders made once, private to this user, and verified at every use.

An entry is one folder: the files that were made, and a manifest with the sha256 of
each. It is made beside its final place and published by one rename, so nobody ever sees
half of it. One process of a host makes it, under a lock that the kernel releases; a
maker that is killed leaves a draft, which the next maker removes.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import cast

from coconet.errors import CacheError, ResourceError
from coconet.settings import settings

__all__ = ["entry", "read_note", "write_note"]

MANIFEST = "manifest.json"
PATIENCE_S = 5.0

_log = logging.getLogger("coconet")


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """Return the verified folder `name`; `make(folder)` fills it if it is not there.

    Where the user's cache cannot be used, a folder private to this process takes its
    place, with one warning.

    Blocks  while another process of this host makes the same entry
    Raises  CacheError: COCONET_CACHE names a folder that others could write to
            ResourceError: there is no place to write to
            whatever `make` raises
    """
    try:
        root = _root()
        return _entry(root, name, make)
    except OSError as error:
        root = _private_root(_reason(error))
    try:
        return _entry(root, name, make)
    except OSError as error:
        raise ResourceError(
            "there is no place to keep compiled code",
            got=_reason(error),
            fix="set COCONET_CACHE to a private folder that can be written to",
        ) from error


def read_note(name: str, *, most_bytes: int) -> bytes | None:
    """Return a small file of the cache folder, None if it is not there.

    Raises CacheError: the file is not a private one of ours, or longer
    """
    path = _folder() / name
    try:
        size = path.lstat().st_size
    except FileNotFoundError:
        return None
    if size > most_bytes:
        raise CacheError(
            "a file of the cache is too long",
            got=f"{size} bytes",
            need=f"at most {most_bytes}",
            at=str(path),
        )
    return _read(path)


def write_note(name: str, content: bytes) -> None:
    """Write a small file of the cache folder, whole or not at all.

    Raises CacheError: COCONET_CACHE names a folder that others could write to
           OSError: there is no room
    """
    folder = _folder()
    file, draft = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with open(file, "wb") as stream:
            stream.write(content)
        os.replace(draft, folder / name)
    finally:
        Path(draft).unlink(missing_ok=True)


def _folder() -> Path:
    try:
        return _root()
    except OSError as error:
        return _private_root(_reason(error))


def _reason(error: OSError) -> str:
    """Say why in words that repeat, so that one cause gives one warning."""
    return f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, '?')})"


def _root() -> Path:
    """Return the cache folder, made if needed, once it is known to be safe."""
    chosen = settings().cache_dir
    if chosen is None:
        import platformdirs

        wanted = Path(platformdirs.user_cache_dir("coconet"))
        if not wanted.is_absolute():
            return _private_root("this user has no home folder")
    else:
        wanted = chosen
    root = Path(os.path.realpath(wanted))
    _make_folder(root)
    danger, act = _danger(root)
    if danger and chosen is not None:
        raise CacheError(
            "COCONET_CACHE is not safe: others could plant code in it",
            got=danger,
            need="a folder of your own that nobody else can write to",
            fix=f"{act}, or name another folder",
        )
    return _private_root(danger) if danger else root


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _danger(folder: Path) -> tuple[str, str]:
    """Say who else could put files into `folder`, and what to do; "" if nobody."""
    if danger := _not_private(folder, folder.lstat()):
        return danger, f"chmod 700 {folder}"
    for parent in folder.parents:
        about = parent.lstat()
        if about.st_uid not in (0, os.geteuid()):
            return f"{parent} belongs to user {about.st_uid}", f"chown {parent}"
        if about.st_mode & stat.S_ISVTX:
            continue  # others may add files, but not put ours away
        if about.st_mode & stat.S_IWOTH:
            return f"{parent} can be written to by everybody", f"chmod o-w {parent}"
        if about.st_mode & stat.S_IWGRP and not _is_own_group(about.st_gid):
            writer = f"{parent} can be written to by group {about.st_gid}"
            return writer, f"chmod g-w {parent}"
    return "", ""


@functools.cache
def _is_own_group(gid: int) -> bool:
    """Whether nobody but root and this user is in a group, as far as names tell.

    Many systems give each user such a group, and let it write to the user's folders.
    """
    import grp
    import pwd

    if gid == 0:
        return True
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}


def _not_private(path: Path, about: os.stat_result) -> str:
    if about.st_uid != os.geteuid():
        return f"{path} belongs to user {about.st_uid}, this is user {os.geteuid()}"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written to by others (mode {about.st_mode & 0o777:o})"
    return ""


@functools.cache
def _private_root(reason: str) -> Path:
    """Make a folder that lives as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="coconet-"))
    atexit.register(_remove_own, folder, os.getpid())
    _log.warning(
        "coconet: the compile cache cannot be used: %s; compiling into %s, "
        "for this process only",
        reason,
        folder,
    )
    return folder


def _remove_own(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not empty its parent's folder
        shutil.rmtree(folder, ignore_errors=True)


def _entry(root: Path, name: str, make: Callable[[Path], None]) -> Path:
    folder = root / name
    with contextlib.suppress(FileNotFoundError, CacheError):
        _verify(folder)
        return folder
    with _locked(root, name):
        try:
            _verify(folder)
        except FileNotFoundError:
            _publish(root, name, make)
        except CacheError as error:
            aside = root / f"{name}.bad-{os.urandom(4).hex()}"
            folder.rename(aside)
            _log.warning(
                "coconet: a compile cache entry is made again, the old one is %s:\n%s",
                aside,
                error,
            )
            _publish(root, name, make)
    return folder


def _verify(folder: Path) -> None:
    """Check that an entry is whole, private to us, and what was written.

    Raises FileNotFoundError if there is none, CacheError if it is bad.
    """
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise CacheError("a cache entry is not a folder", at=str(folder))
    if danger := _not_private(folder, about):
        raise CacheError("a cache entry is not private", got=danger)
    written = _manifest(folder)
    found = {path.name for path in folder.iterdir()} - {MANIFEST}
    if found != written.keys():
        raise CacheError(
            "a cache entry does not hold the files of its manifest",
            got=sorted(found),
            need=sorted(written),
            at=str(folder),
        )
    for name, digest in written.items():
        if _digest(_read(folder / name)) != digest:
            raise CacheError(
                "a file of a cache entry is not what was written", at=str(folder / name)
            )


def _manifest(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file, by name."""
    path = folder / MANIFEST
    try:
        parsed: object = json.loads(_read(path))
    except ValueError as error:
        raise CacheError("a manifest does not parse", got=error, at=str(path)) from None
    if not isinstance(parsed, dict):
        raise CacheError("a manifest is not an object", got=parsed, at=str(path))
    return cast("dict[str, str]", parsed)


def _read(path: Path) -> bytes:
    """Return the bytes of a plain file of ours that nobody else can write to."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        file = os.open(path, flags)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        raise CacheError(
            "a file of a cache entry is missing or a link", at=str(path)
        ) from None
    with open(file, "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise CacheError("a file of a cache entry is not plain", at=str(path))
        if danger := _not_private(path, about):
            raise CacheError("a file of a cache entry is not private", got=danger)
        return stream.read()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _publish(root: Path, name: str, make: Callable[[Path], None]) -> None:
    """Make an entry beside its place and move it there; the caller holds the lock."""
    mine = f".{name}.{os.uname().nodename}."
    for left in root.glob(mine + "*"):  # by makers that were killed: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{mine}{os.getpid()}.", dir=root))
    try:
        make(draft)
        written = {path.name: path for path in sorted(draft.iterdir())}
        for path in written.values():
            path.chmod(0o600)
        digests = {key: _digest(path.read_bytes()) for key, path in written.items()}
        manifest = draft / MANIFEST
        manifest.write_text(json.dumps(digests, indent=2) + "\n")
        manifest.chmod(0o600)
        try:
            draft.rename(root / name)
        except OSError as error:  # another host published it; its locks are its own
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _verify(root / name)


@contextlib.contextmanager
def _locked(root: Path, name: str) -> Generator[None]:
    """Hold the entry's lock; say who has it when that takes long."""
    from filelock import FileLock, Timeout  # 20 ms: not on the path of a hit

    lock = FileLock(root / f"{name}.lock", mode=0o600)
    patience_s = PATIENCE_S
    while True:
        try:
            lock.acquire(timeout=patience_s)
            break
        except Timeout:
            _log.warning("coconet: waiting for %s: %s", name, _holder(root, name))
            patience_s *= 2
    try:
        yield
    finally:
        lock.release()


def _holder(root: Path, name: str) -> str:
    """Say which process makes an entry, from the name of its draft."""
    for draft in root.glob(f".{name}.*"):
        with contextlib.suppress(FileNotFoundError):
            age_s = time.time() - draft.stat().st_ctime
            host, pid, _ = draft.name.removeprefix(f".{name}.").rsplit(".", 2)
            return f"process {pid} on {host} has been making it for {age_s:.0f} s"
    return "another process holds its lock"

"""Temporary folders, each with an owner: none of them outlives its process for good.

The owner holds a lock in its folder, and the system takes that away however the process ends. So
whoever starts next can tell a folder that is in use from one that was left, and removes the latter.

On a volume that several machines share, locks may hold on one of them only. So owners renew the
time of their lock, and the folder of another host is left for a day after that. A container that
restarts is another host.
"""

import fcntl
import logging
import os
import re
import shutil
import socket
import struct
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

log = logging.getLogger(__name__)

_NAME = re.compile(r"jetbridge-[A-Za-z0-9.-]+-(\d+)-[0-9a-f]{12}")
_LOCK = "owner.lock"
_OPEN = os.O_RDWR | os.O_NOFOLLOW
_PRIVATE = 0o700
_HOST = socket.gethostname().encode()
# https://man7.org/linux/man-pages/man5/acl.5.html, version 2: tag, permissions, no id; for the
# owner, the group and all others.
_ENTRIES = ((0x01, 7), (0x04, 0), (0x20, 0))
_OWNER_ONLY = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, permissions, 2**32 - 1) for tag, permissions in _ENTRIES
)
# Seconds until the next look, where a child of a process that is gone has not ended yet.
_PAUSES = (2.0, 5.0, 20.0, 60.0)
# How often owners renew their marks and sweep again, and when those of other hosts are gone.
_ROUND_SECONDS = 3600.0
_GONE_SECONDS = 24 * 3600.0
_sweeping = threading.Lock()
_swept: set[str] = set()
# The process whose thread does that: a fork has no threads.
_round_process = 0


class TemporaryFolder:
    """Made at once, for this user alone, and removed by `remove` or at the end of the process.

    A child that works in it inherits `lock`: the folder is in use until both are gone.
    """

    def __init__(
        self, kind: str, parent: str | Path | None = None, *, mode: int = _PRIVATE
    ) -> None:
        """`parent` is an existing folder, or None for the system's; raises OSError.

        `mode` is for folders that processes of other users read, less what the umask forbids.
        """
        where = str(parent or tempfile.gettempdir())
        start_sweep(where)
        self.path, self.lock = _made(kind, Path(where).absolute(), mode)
        self._process = os.getpid()
        self._end = weakref.finalize(self, _remove, self.path, self.lock, self._process)
        _folders.add(self)

    def renew_mark(self) -> None:
        """Tells other hosts that the owner lives."""
        if os.getpid() == self._process:
            with suppress(OSError):  # a cleaner has taken the lock, or the disk is gone
                os.utime(self.path / _LOCK, follow_symlinks=False)

    def remove(self) -> None:
        """With all that is in it; once is enough."""
        self._end()


_folders: weakref.WeakSet[TemporaryFolder] = weakref.WeakSet()


def remove_all() -> None:
    """For a process that ends without Python's own end."""
    for folder in _existing():
        folder.remove()


def renew_marks() -> None:
    """Of all folders of this process."""
    for folder in _existing():
        folder.renew_mark()


def _existing() -> list[TemporaryFolder]:
    while True:
        with suppress(RuntimeError):  # another thread has just added one
            return list(_folders)


def _made(kind: str, parent: Path, mode: int) -> tuple[Path, int]:
    """The folder and its lock. Until that is taken a sweep may remove the folder: then another."""
    while True:
        folder = parent / f"jetbridge-{kind}-{os.getpid()}-{uuid4().hex[:12]}"
        folder.mkdir(mode)
        if mode == _PRIVATE:
            _keep_files_private(folder)
        lock = _locked(folder)
        if lock is not None:
            return folder, lock


def _locked(folder: Path) -> int | None:
    """Its lock, or None where a sweep was faster. Without it nothing stays of the folder."""
    try:
        with ExitStack() as undo:
            lock = os.open(folder / _LOCK, _OPEN | os.O_CREAT, 0o600)
            undo.callback(os.close, lock)
            if _is_ours(folder, lock):
                os.write(lock, _HOST)
                undo.pop_all()
                return lock
    except FileNotFoundError:
        pass
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)  # the sweep leaves it alone: its owner lives
    return None


def _keep_files_private(folder: Path) -> None:
    """Files that others make in it are for this user alone, too, whatever the umask says.

    DuckDB makes its spill files with 0666. Where a file system has no such lists, the folder
    itself lets nobody in.
    """
    with suppress(OSError, AttributeError):  # macOS has other lists
        os.setxattr(folder, "system.posix_acl_default", _OWNER_ONLY)


def _is_ours(folder: Path, lock: int) -> bool:
    try:
        _take(lock)
        return os.path.samestat(os.fstat(lock), os.stat(folder / _LOCK))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as error:
        log.debug("%s has no locks, so nobody sweeps it: %s", folder.parent, error)
        return True


def _take(lock: int) -> None:
    """Raises BlockingIOError if someone has it, another OSError where there are no locks."""
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # a fork of the owner leaves it alone
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def start_sweep(parent: str | Path | None = None) -> None:
    """Sweeps in the background, at once and then every hour."""
    with suppress(OSError):  # no temporary directory at all: whoever needs one says so
        where = os.path.realpath(parent or tempfile.gettempdir())
        with _sweeping:
            _start_rounds()
            if where in _swept:
                return
            _swept.add(where)
        work = (where,)
        threading.Thread(target=_sweep_all, args=work, name="temporary-sweep", daemon=True).start()


def _start_rounds() -> None:
    global _round_process  # noqa: PLW0603
    if _round_process != os.getpid():
        _round_process = os.getpid()
        threading.Thread(target=_go_round, name="temporary-rounds", daemon=True).start()


def _go_round() -> None:
    while True:
        time.sleep(_ROUND_SECONDS)
        renew_marks()
        for where in list(_swept):
            sweep(where)


def _sweep_all(where: str) -> None:
    for pause in _PAUSES:
        if not sweep(where):
            return
        time.sleep(pause)


def sweep(parent: str | Path) -> bool:
    """Removes what processes of this user have left; whether one more look is worth while."""
    ending = False
    with suppress(OSError):
        for folder, owner in _owned(parent):
            with suppress(OSError):
                ending |= not _swept_away(folder, owner) and not _lives(owner)
    return ending


def _owned(parent: str | Path) -> Iterator[tuple[str, int]]:
    """Folders of this user with a name as `_made` gives it, and their owners; no links."""
    with os.scandir(parent) as entries:
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            if not found or not entry.is_dir(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                yield entry.path, int(found[1])


def _swept_away(folder: str, owner: int) -> bool:
    """Whether the folder was nobody's."""
    with ExitStack() as held:
        try:
            lock = os.open(Path(folder, _LOCK), _OPEN)
            held.callback(os.close, lock)
            _take(lock)
            host, mark = os.pread(lock, len(_HOST) + 1, 0), os.fstat(lock).st_mtime
        except FileNotFoundError:
            host, mark = b"", 0.0
        except BlockingIOError:
            return False
        # Cleaners of /tmp take the lock away from an owner that lives.
        if not _has_gone(folder, host, mark) if host else _lives(owner):
            return False
        log.info("removing %s, which a process has left that is gone", folder)
        shutil.rmtree(folder, ignore_errors=True)
    return True


def _has_gone(folder: str, host: bytes, mark: float) -> bool:
    """Whether the owner that has locked the folder is none any more; it has no lock here."""
    return host == _HOST or _clock(os.path.dirname(folder)) - mark > _GONE_SECONDS


def _clock(folder: str) -> float:
    """The time of the file system, which for a shared one is not that of this machine."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # or more than any process has
        return False
    except PermissionError:
        return True
    return True

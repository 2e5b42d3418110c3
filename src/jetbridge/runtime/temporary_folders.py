"""Makes temporary folders, and removes those whose process has ended.

A process holds a lock in each of its folders, which the system releases however the process ends.
So the next process can tell an abandoned folder from one in use, and removes it.

On a volume that several machines share, a lock may hold on one machine only. So processes renew the
time of their lock file, and the folder of another host is removed a day after the last renewal. A
container that restarts is another host.
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
# Access control list (https://man7.org/linux/man-pages/man5/acl.5.html), version 2: tag,
# permissions and no id, for the owner, the group and all others.
_ENTRIES = ((0x01, 7), (0x04, 0), (0x20, 0))
_OWNER_ONLY = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, permissions, 2**32 - 1) for tag, permissions in _ENTRIES
)
# Pauses before the next sweep, if a child of an ended process still runs.
_PAUSES = (2.0, 5.0, 20.0, 60.0)
# How often processes renew their marks and sweep again, and the age at which a mark expires.
_ROUND_SECONDS = 3600.0
_GONE_SECONDS = 24 * 3600.0
_sweeping = threading.Lock()
_swept: set[str] = set()
# The process whose thread does the rounds: a fork has no threads.
_round_process = 0


class TemporaryFolder:
    """Create a folder for this user alone; `remove` or the end of the process removes it.

    A child process that works in it inherits `lock`: the folder is in use until both have ended.
    """

    def __init__(
        self, purpose: str, parent: str | Path | None = None, *, mode: int = _PRIVATE
    ) -> None:
        """Create the folder in `parent`, by default the system's; raise OSError.

        `mode` gives users of other processes access, as far as the umask allows.
        """
        parent_path = str(parent or tempfile.gettempdir())
        start_sweep(parent_path)
        self.path, self.lock = _create(purpose, Path(parent_path).absolute(), mode)
        self._process = os.getpid()
        self._end = weakref.finalize(self, _remove, self.path, self.lock, self._process)
        _folders.add(self)

    def renew_mark(self) -> None:
        """Renew the time of the lock file, by which other hosts see that the process runs."""
        if os.getpid() == self._process:
            with suppress(OSError):  # another program has removed the lock, or the disk
                os.utime(self.path / _LOCK, follow_symlinks=False)

    def remove(self) -> None:
        """Remove the folder with its contents; a second call does nothing."""
        self._end()


_folders: weakref.WeakSet[TemporaryFolder] = weakref.WeakSet()


def remove_all() -> None:
    """Remove all folders of this process, before it ends without Python's own clean-up."""
    for folder in _existing():
        folder.remove()


def renew_marks() -> None:
    """Renew the marks of all folders of this process."""
    for folder in _existing():
        folder.renew_mark()


def _existing() -> list[TemporaryFolder]:
    while True:
        with suppress(RuntimeError):  # another thread has just added a folder
            return list(_folders)


def _create(purpose: str, parent: Path, mode: int) -> tuple[Path, int]:
    """Create a folder and lock it; if a sweep removes it first, create another."""
    while True:
        folder = parent / f"jetbridge-{purpose}-{os.getpid()}-{uuid4().hex[:12]}"
        folder.mkdir(mode)
        if mode == _PRIVATE:
            _keep_files_private(folder)
        lock = _lock_folder(folder)
        if lock is not None:
            return folder, lock


def _lock_folder(folder: Path) -> int | None:
    """Return the lock of a new folder; None, and no folder, if a sweep was faster."""
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
    shutil.rmtree(folder, ignore_errors=True)  # the sweep leaves it: its process runs
    return None


def _keep_files_private(folder: Path) -> None:
    """Make files in the folder private to this user, whatever the umask is.

    DuckDB creates its spill files with 0666. If the file system has no access control lists, the
    mode of the folder itself keeps other users out.
    """
    with suppress(OSError, AttributeError):  # macOS has lists of another form
        os.setxattr(folder, "system.posix_acl_default", _OWNER_ONLY)


def _is_ours(folder: Path, lock: int) -> bool:
    try:
        _take(lock)
        return os.path.samestat(os.fstat(lock), os.stat(folder / _LOCK))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as error:
        log.debug("%s does not support locks, so it is never swept: %s", folder.parent, error)
        return True


def _take(lock: int) -> None:
    """Lock the file; raise BlockingIOError if it is locked, OSError if locks are not supported."""
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # a fork does not remove the folder
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def start_sweep(parent: str | Path | None = None) -> None:
    """Sweep a folder in the background, at once and then every hour."""
    with suppress(OSError):  # without a temporary directory, its first user raises an error
        path = os.path.realpath(parent or tempfile.gettempdir())
        with _sweeping:
            _start_rounds()
            if path in _swept:
                return
            _swept.add(path)
        threading.Thread(
            target=_sweep_all, args=(path,), name="temporary-sweep", daemon=True
        ).start()


def _start_rounds() -> None:
    global _round_process  # noqa: PLW0603
    if _round_process != os.getpid():
        _round_process = os.getpid()
        threading.Thread(target=_go_round, name="temporary-rounds", daemon=True).start()


def _go_round() -> None:
    while True:
        time.sleep(_ROUND_SECONDS)
        renew_marks()
        for path in list(_swept):
            sweep(path)


def _sweep_all(path: str) -> None:
    for pause in _PAUSES:
        if not sweep(path):
            return
        time.sleep(pause)


def sweep(parent: str | Path) -> bool:
    """Remove folders that processes of this user have left; return whether to sweep again."""
    ending = False
    with suppress(OSError):
        for folder, owner in _list_owned(parent):
            with suppress(OSError):
                ending |= not _remove_abandoned(folder, owner) and not _is_running(owner)
    return ending


def _list_owned(parent: str | Path) -> Iterator[tuple[str, int]]:
    """Yield the folders of this user with names of `_create`, and their processes; no links."""
    with os.scandir(parent) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if not match or not entry.is_dir(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                yield entry.path, int(match[1])


def _remove_abandoned(folder: str, owner: int) -> bool:
    """Remove the folder if no process uses it; return whether that is so."""
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
        # Programs that clean /tmp remove the lock file of a process that runs.
        if not _has_expired(folder, host, mark) if host else _is_running(owner):
            return False
        log.info("removing %s, left by a process that has ended", folder)
        shutil.rmtree(folder, ignore_errors=True)
    return True


def _has_expired(folder: str, host: bytes, mark: float) -> bool:
    """Return whether a folder whose lock is free here is abandoned: another host may hold it."""
    return host == _HOST or _file_system_time(os.path.dirname(folder)) - mark > _GONE_SECONDS


def _file_system_time(folder: str) -> float:
    """Return the time of the file system; if it is shared, this machine's time may differ."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # OverflowError: no process has such an id
        return False
    except PermissionError:
        return True
    return True

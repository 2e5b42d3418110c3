"""A small tmpfs, which a test can fill, if the test may mount one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK = 4096


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    @property
    def free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def leave(self, blocks: int) -> None:
        """Fill the disk until so many blocks are free."""
        self.release()
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, self.free - blocks * BLOCK))

    def release(self) -> None:
        self._ballast.unlink(missing_ok=True)


def may_mount() -> bool:
    """Return whether tests may mount: only root may, and not in every container."""
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Disk]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield Disk(folder)
    finally:
        # Lazily: a process that was killed a moment ago may still hold a file.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

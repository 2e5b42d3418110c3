"""Keeps the key that seals tickets and descriptors beside the tables, so they outlive a restart."""

import logging
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from jetbridge.config.credentials import SEAL_KEY_BYTES, read_seal_keys, warn_if_open_to_others
from jetbridge.config.model import ConfigError
from jetbridge.errors import FailedPrecondition

log = logging.getLogger(__name__)

KEPT = Path(".jetbridge", "seal.key")
_OWNER_ONLY = 0o600


def keep_seal_key(folder: Path) -> Path | None:
    """Return the file of the key in a folder, created if missing; None if that is not possible."""
    path = folder / KEPT
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _create(path)
        path.open("rb").close()
        warn_if_open_to_others(path)
    except OSError as error:
        log.warning(
            "%s cannot be used (%s): clients must attach again after a restart; "
            "name another file in server.seal_key_file",
            path,
            error.strerror or error,
        )
        return None
    return path


def reading(path: Path) -> Callable[[], Sequence[bytes]]:
    """Return a function that reads the keys again, or returns the latest if that fails."""
    try:
        known = read_seal_keys(path)
    except ConfigError as error:
        raise FailedPrecondition(f"{error}; if you remove it, a new one is created") from error

    def read() -> Sequence[bytes]:
        nonlocal known
        try:
            known = read_seal_keys(path)
        except ConfigError as error:
            log.warning("the previous keys are used: %s", error)
        return known

    return read


def _create(path: Path) -> None:
    """Write a new key in one step: servers that start together all read the first one's key."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(SEAL_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        log.debug("another server made %s first", path)
    finally:
        draft.unlink(missing_ok=True)

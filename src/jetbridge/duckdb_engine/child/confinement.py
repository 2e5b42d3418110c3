"""What the process of a session may not do, set before it reads a text of a client."""

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

# <sys/prctl.h>
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PRIVATE = 0o077
# RLIMIT_DATA counts whole stacks, and DuckDB checks each megabyte of an extension in a thread.
_STACK_BYTES = 2 * 1024 * 1024
# More than pthread_attr_t has on any system.
_ATTRIBUTE_BYTES = 128


def limit_thread_stacks() -> None:
    """Let threads that start later have small stacks, also in forks of this process."""
    libc = ctypes.CDLL(None)
    attributes = ctypes.create_string_buffer(_ATTRIBUTE_BYTES)
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
    libc.pthread_setattr_default_np(attributes)
    libc.pthread_attr_destroy(attributes)


def confine(memory_bytes: int, parent: int) -> None:
    """Limit this process, and let it end with its parent.

    `memory_bytes` is what it may take besides what it has. Raises OSError if the system refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_PDEATHSIG, signal.SIGKILL), (_PR_SET_NO_NEW_PRIVS, 1)):
        if libc.prctl(option, int(value), 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it ended before the first line
        os._exit(1)
    os.umask(_PRIVATE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _data_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    # If the machine itself runs out of memory, the kernel ends this process first.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _data_bytes() -> int:
    """Return the bytes that RLIMIT_DATA counts so far."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[5]) * resource.getpagesize()


def close_files(*kept: int) -> None:
    """Close all open files but these; the standard ones lead to nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, *kept):
            with suppress(OSError):  # the one that listed the folder
                os.close(int(name))

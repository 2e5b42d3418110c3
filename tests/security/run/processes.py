"""The processes in which a server runs the statements of its clients."""

import os
import time
from contextlib import suppress

import psutil

FORK_SERVER = "jetbridge.duckdb_engine.child.fork_server"


def fork_servers(server: int | None = None) -> list[psutil.Process]:
    """Return the processes of a server that fork; `server` None: this process."""
    forking = []
    for process in psutil.Process(server or os.getpid()).children():
        with suppress(psutil.Error):
            if FORK_SERVER in process.cmdline():
                forking.append(process)
    return forking


def workers(server: int | None = None) -> list[psutil.Process]:
    """Return the processes of a server that run statements."""
    running = []
    for process in fork_servers(server):
        with suppress(psutil.Error):
            running += [p for p in process.children() if p.status() != psutil.STATUS_ZOMBIE]
    return running


def computed() -> float:
    """Return the seconds that this process and its statements have computed."""
    seconds = time.process_time()
    for process in workers():
        with suppress(psutil.Error):
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds

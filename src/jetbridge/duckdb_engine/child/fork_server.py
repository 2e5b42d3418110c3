"""A process that has imported DuckDB, and forks itself for each session of a client.

It reads one message for each process: its limit of memory, and its end of a socket. It answers
with a handle of the process (a pidfd), or with the reason why there is none. It ends when the
server ends, however that happens, and then the system ends its processes.
"""

import os
import signal
import socket
from typing import NoReturn

import pyarrow as pa

from jetbridge.duckdb_engine.child.confinement import close_files, confine, limit_thread_stacks
from jetbridge.duckdb_engine.child.worker import Worker
from jetbridge.duckdb_engine.connection import DuckDBAccess
from jetbridge.duckdb_engine.planner import PlannerDatabase

MESSAGE_BYTES = 64


def main() -> None:
    """Serve the socket that is the standard input."""
    # Ended processes leave nothing for this one to collect.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_thread_stacks()
    _warm_up()
    with socket.socket(fileno=os.dup(0)) as control:
        while True:
            message, files, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 1)
            if not message:
                return
            _fork(control, int(message), files[0])


def _warm_up() -> None:
    """Import what the first statements would import, and open the DuckDB that parses.

    Forks take it over as it is, because a DuckDB of one thread has no threads of its own.
    """
    access = DuckDBAccess(load_extensions=False, threads=1, spill_bytes=0, spill_folder="")
    database = PlannerDatabase(["warm"], access)
    path, query = ("warm", "main", "t"), "FROM warm.main.t"
    with database.connect() as connection:
        connection.register("rows", pa.table({"a": [1]}).to_reader())
        connection.create_table_as(path, "FROM rows")
        connection.references(query)
        connection.single_table_read(query)
        connection.schema(query)
        connection.types(query)
        list(connection.stream(query))
    database.close()


def _fork(control: socket.socket, memory_bytes: int, file: int) -> None:
    parent = os.getpid()
    try:
        process = os.fork()
    except OSError as error:
        os.close(file)
        control.send(str(error).encode()[:MESSAGE_BYTES])
        return
    if not process:
        _work(file, memory_bytes, parent)
    os.close(file)
    try:
        handle = os.pidfd_open(process)
    except OSError as error:  # it has ended already
        control.send(str(error).encode()[:MESSAGE_BYTES])
        return
    socket.send_fds(control, [b"ok"], [handle])
    os.close(handle)


def _work(file: int, memory_bytes: int, parent: int) -> NoReturn:
    status = 1
    try:
        close_files(file)
        confine(memory_bytes, parent)
        with socket.socket(fileno=file) as channel:
            Worker(channel).run()
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()

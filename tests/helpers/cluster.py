"""A standalone Spark cluster on this machine: a master and two workers, from PySpark's package."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from jetbridge.spark.jvm import find_java, spark_home
from tests.helpers.jvms import jvms
from tests.helpers.waiting import wait_until_it_succeeds

LOOPBACK = "127.0.0.1"
# Spark tries a slow task a second time on another host only, and judges by the name.
HOSTS = (LOOPBACK, "localhost")
WORKERS = 2
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
# Starts of Java are slow where the machine is busy.
SECONDS = 240.0
_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Registering worker ")


def settings(master: str) -> dict[str, str]:
    """Return settings of a driver on this machine, which waits for a lost worker only briefly."""
    return {
        "spark.master": master,
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": "640m",
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "4",
        "spark.shuffle.io.retryWait": "1s",
    }


# A worker with an empty folder of its own in the place of one that others see.
PRIVATE = ("unshare", "--mount", "--propagation", "private", "sh", "-ec")
PRIVATE_SCRIPT = 'mount -t tmpfs none "$1"; shift; exec "$@"'


class Cluster:
    """Run a cluster; `folder` takes the logs, and what the workers keep while they run.

    At `private` each worker has a folder of its own, as if it were on another machine.
    """

    def __init__(self, folder: Path, private: Path | None = None) -> None:
        self._folder, self._private = folder, private
        self._log = folder / "master.log"
        self._started = 0
        self.workers: list[psutil.Popen] = []
        self._master = self._launch("master", MASTER, "--host", LOOPBACK, "--port", "0")
        self.url = self._said(_URL, 1)[0]

    def _launch(self, name: str, role: str, *options: str) -> psutil.Popen:
        home = spark_home()
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        command = [str(home / "bin" / "spark-class"), role, *options, "--webui-port", "0"]
        if self._private is not None and role == WORKER:
            rights = () if os.geteuid() == 0 else ("--map-root-user",)
            alone = (*PRIVATE[:1], *rights, *PRIVATE[1:], PRIVATE_SCRIPT, "sh", str(self._private))
            command = [*alone, *command]
        with (self._folder / f"{name}.log").open("ab") as log:
            return psutil.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def _said(self, pattern: re.Pattern[str], times: int) -> list[str]:
        """Return what the master has logged, as soon as there is so much of it."""

        def found() -> list[str]:
            assert self._master.is_running(), self._log.read_text()
            matches = pattern.findall(self._log.read_text())
            assert len(matches) >= times, self._log.read_text()
            return matches

        return wait_until_it_succeeds(found, AssertionError, seconds=SECONDS, step=0.05)

    def add_workers(self, count: int = 1) -> None:
        for _ in range(count):
            self._add_worker()
        self._said(_REGISTERED, self._started)

    def _add_worker(self) -> None:
        self._started += 1
        name = f"worker{self._started}"
        host = HOSTS[self._started % len(HOSTS)]
        options = ("--host", host, "--cores", "1", "--memory", "1g")
        folder = str(self._folder / name)
        worker = self._launch(name, WORKER, *options, "--work-dir", folder, self.url)
        self.workers.append(worker)

    def kill_worker(self, folder: Path) -> None:
        """Kill a worker that writes there, if any, with its executor, as if its machine is lost.

        So a task is lost in the middle, however few rows there are.
        """
        busy = (worker for worker in self.workers if _writes(worker, folder))
        lost = next(busy, self.workers[0])
        self.workers.remove(lost)
        kill(lost)

    def executors(self) -> int:
        """Count the programs of the workers; Spark's script may leave a dead shell beside them."""
        return sum(len(jvms(worker)) for worker in self.workers)

    def applications(self) -> int:
        """Count the applications so far."""
        return len(re.findall(r"Registered app ", self._log.read_text()))

    def close(self) -> None:
        for process in (*self.workers, self._master):
            kill(process)


def _writes(worker: psutil.Popen, folder: Path) -> bool:
    with suppress(psutil.Error):
        files = [file for child in worker.children() for file in child.open_files()]
        return any(Path(file.path).is_relative_to(folder) for file in files)
    return False


def kill(process: psutil.Popen) -> None:
    """Kill a process with what it has started."""
    children = process.children(recursive=True) if process.is_running() else []
    process.kill()
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs([process, *children], SECONDS)


@contextmanager
def running(folder: Path, private: Path | None = None) -> Iterator[Cluster]:
    cluster = Cluster(folder, private)
    try:
        cluster.add_workers(WORKERS)
        yield cluster
    finally:
        cluster.close()

"""Wait for moments in the middle of a statement, by the files that it writes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.faults.lake.process import PATIENCE
from tests.helpers.waiting import wait_until

STEP = 0.001
Result = TypeVar("Result")


class Moment(NamedTuple):
    """Name the moment at which `folder` has `number` new files that match `names`."""

    folder: str
    names: str
    number: int = 1
    delay: float = 0.0

    def __str__(self) -> str:
        after = f" {self.delay:g} s later" if self.delay else ""
        return f"{self.folder} {self.names} {self.number}{after}"


class Watch:
    """Watch a folder from now on; `TABLE` in its path stands for `table`."""

    def __init__(self, warehouse: Path, table: Path, moment: Moment) -> None:
        self._folder = warehouse / moment.folder.replace("TABLE", str(table))
        self._moment = moment
        self._before = self._files()

    def _files(self) -> set[Path]:
        return set(self._folder.rglob(self._moment.names)) if self._folder.exists() else set()

    def wait(self, running: Future[Result]) -> bool:
        """Wait for the moment; return whether the statement was still running."""

        def came() -> bool:
            return running.done() or len(self._files() - self._before) >= self._moment.number

        wait_until(came, PATIENCE, STEP)
        wait([running], self._moment.delay)
        return not running.done()


class Broken(NamedTuple):
    """Hold the result of a statement, and whether it ran when its server or Spark was killed."""

    error: BaseException | None
    in_the_middle: bool


def broken(statement: Callable[[], object], watch: Watch, kill: Callable[[], object]) -> Broken:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(statement)
        in_the_middle = watch.wait(running)
        kill()
        return Broken(running.exception(PATIENCE), in_the_middle)

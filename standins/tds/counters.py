"""What happened so far, for tests to look at."""

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Counts:
    connections: int = 0
    logins: int = 0
    bulk_rows: int = 0
    attentions: int = 0


class Counters:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counts()
        self._texts: list[tuple[int, str]] = []

    def add(
        self, connections: int = 0, logins: int = 0, bulk_rows: int = 0, attentions: int = 0
    ) -> None:
        with self._lock:
            old = self._counts
            self._counts = replace(
                old,
                connections=old.connections + connections,
                logins=old.logins + logins,
                bulk_rows=old.bulk_rows + bulk_rows,
                attentions=old.attentions + attentions,
            )

    def saw(self, spid: int, text: str) -> None:
        with self._lock:
            self._texts.append((spid, text))

    @property
    def now(self) -> Counts:
        return self._counts

    @property
    def batches(self) -> list[str]:
        """The texts that were to run, prepared ones as often as they did."""
        return [text for _, text in self.by_session]

    @property
    def by_session(self) -> list[tuple[int, str]]:
        """The same, each with the number of its connection."""
        with self._lock:
            return list(self._texts)

"""What the server can be told to do wrong, and when.

A fault watches one sort of event. From the `at`-th of them on, counted from when it was set and
over all connections, it fires `times` times: it waits `delay` seconds, then raises the error or
drops the connection. Without either it is only slow.
"""

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from standins.tds.values import SqlError


class When(StrEnum):
    LOGIN = "login"  # somebody logs in
    RECEIVED = "received"  # a packet came in
    SENT = "sent"  # a packet would go out
    STATEMENT = "statement"  # a batch or prepared text that `pattern` finds, before it runs
    BULK_ROW = "bulk row"  # a row of a bulk load
    LOADED = "loaded"  # a bulk load is stored, its answer not sent
    COMMITTED = "committed"  # a COMMIT is done, its answer not sent


class Drop(StrEnum):
    RESET = "reset"
    FIN = "fin"


# What SQL Server says, and how loud, for errors that tests ask for by their number.
_KNOWN = {
    1205: (13, "Transaction (Process ID 51) was deadlocked on lock resources with another process "
        "and has been chosen as the deadlock victim. Rerun the transaction."),
    1222: (16, "Lock request time out period exceeded."),
    2627: (14, "Violation of PRIMARY KEY constraint. Cannot insert duplicate key in object."),
    9002: (17, "The transaction log for database 'standin' is full due to 'ACTIVE_TRANSACTION'."),
    18456: (14, "Login failed for user."),
}  # fmt: skip
_PACKETS = (When.RECEIVED, When.SENT)


@dataclass(frozen=True)
class Fault:
    """`times` None: always; `seconds`: it is over so long after it was set."""

    when: When
    at: int = 1
    times: int | None = 1
    pattern: str = ""
    delay: float = 0.0
    number: int | None = None
    text: str = ""
    severity: int | None = None
    drop: Drop | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.when in _PACKETS and self.number is not None:
            raise ValueError("a packet can be slow or lost, it cannot meet an error")

    @property
    def error(self) -> SqlError | None:
        if self.number is None:
            return None
        severity, text = _KNOWN.get(self.number, (16, "told to fail"))
        return SqlError(self.number, self.text or text, self.severity or severity)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> "Fault":
        """From JSON; a wrong name is a TypeError, a wrong value a ValueError."""
        drop = given.get("drop")
        fault = cls(**given)
        return replace(fault, when=When(fault.when), drop=None if drop is None else Drop(drop))


class Dropped(Exception):
    """This connection ends now, in this way."""

    def __init__(self, how: Drop) -> None:
        super().__init__(how.value)
        self.how = how


@dataclass
class _Set:
    fault: Fault
    since: float
    seen: int = 0
    fired: int = 0

    def fires(self, when: When, amount: int, text: str) -> bool:
        fault = self.fault
        if fault.when is not when or self._is_over():
            return False
        if fault.pattern and not re.search(fault.pattern, text, re.IGNORECASE):
            return False
        self.seen += amount
        if self.seen < fault.at:
            return False
        self.fired += 1
        return True

    def _is_over(self) -> bool:
        fault = self.fault
        if fault.times is not None and self.fired >= fault.times:
            return True
        return fault.seconds is not None and time.monotonic() - self.since > fault.seconds


class Faults:
    """Those that are set; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set: list[_Set] = []
        self._fired: list[Fault] = []

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._set += [_Set(fault, time.monotonic()) for fault in faults]

    def clear(self) -> None:
        with self._lock:
            self._set, self._fired = [], []

    @property
    def fired(self) -> list[Fault]:
        """In the order they fired, one that fired twice twice."""
        with self._lock:
            return list(self._fired)

    def watch(self, when: When) -> bool:
        """Quick: is there one for these events at all."""
        return any(each.fault.when is when for each in self._set)

    def meet(self, when: When, amount: int = 1, text: str = "") -> None:
        """An event happened: what is due for it happens too."""
        if not self._set:
            return
        with self._lock:
            due = [each.fault for each in self._set if each.fires(when, amount, text)]
            self._fired += due
        for fault in due:
            _happen(fault)


def _happen(fault: Fault) -> None:
    if fault.delay:
        time.sleep(fault.delay)  # slowness is the fault
    if fault.drop is not None:
        raise Dropped(fault.drop)
    error = fault.error
    if error is not None:
        raise error

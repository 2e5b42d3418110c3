"""Calls with a token that nobody has: they are logged, and from some number on slowed down."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_log = logging.getLogger(__name__)

# So many are answered at once; after them one each pause, whoever calls.
_AT_ONCE = 40
_PAUSE_SECONDS = 0.5
# Those that wait for their answer; more are refused without one.
_MOST_WAITING = 16
_LOG_SECONDS = 10.0


class FailedLogins(ThreadPoolExecutor):
    """The pool in which they are answered: by one thread, which sleeps before each."""

    def __init__(self) -> None:
        super().__init__(1, "jetbridge-failed-login")
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._left, self._counted = float(_AT_ONCE), time.monotonic()
        self._waiting = self._unlogged = 0
        self._logged = float("-inf")

    def crowded(self) -> bool:
        with self._lock:
            return self._waiting >= _MOST_WAITING

    def note(self, peer: str) -> None:
        """A line in the log for the first one, and then one for all of some seconds."""
        now = time.monotonic()
        with self._lock:
            self._unlogged += 1
            if now - self._logged < _LOG_SECONDS:
                return
            count, self._unlogged, self._logged = self._unlogged, 0, now
        _log.warning("calls with an unknown token were refused: %d, the last from %s", count, peer)

    def sleep(self) -> None:
        """Before a failed login is answered by the thread of its call."""
        self._ended.wait(_PAUSE_SECONDS)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(None)
        if self._answers_at_once():
            fn(*args, **kwargs)
        else:
            super().submit(self._slowly, fn, *args, **kwargs)
        return done

    def end(self) -> None:
        """Answers those that wait."""
        self._ended.set()

    def _answers_at_once(self) -> bool:
        now = time.monotonic()
        with self._lock:
            regained = (now - self._counted) / _PAUSE_SECONDS
            self._left, self._counted = min(_AT_ONCE, self._left + regained), now
            at_once = self._left >= 1 and not self._waiting
            self._left -= at_once
            self._waiting += not at_once
        return at_once

    def _slowly(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._ended.wait(_PAUSE_SECONDS)
        with self._lock:
            self._waiting -= 1
        fn(*args, **kwargs)

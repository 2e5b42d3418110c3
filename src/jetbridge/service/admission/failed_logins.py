"""Calls with a token that nobody has: they are logged, and from some number on slowed down.

A right token is answered at once, so a caller who waits a moment knows that a guess was wrong. What
slows guesses down is that few of them wait at a time: while as many wait as may, an address that
has guessed is not told whether a token is right, unless that token was used from there before.
"""

import logging
import threading
import time
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from cachetools import TTLCache

from jetbridge.errors import Unavailable

_log = logging.getLogger(__name__)

# So many are answered at once; after them one each pause, whoever calls.
_AT_ONCE = 40
_PAUSE_SECONDS = 0.5
# Those that wait for their answer; while there are so many, no token of a guesser is judged.
_MOST_WAITING = 16
_LOG_SECONDS = 10.0
# Right and wrong tokens of an address are remembered for so long.
_KNOWN_SECONDS = 3600.0
_MOST_KNOWN = 10_000


class FailedLogins(ThreadPoolExecutor):
    """The pool in which they are answered: by one thread, which sleeps before each."""

    def __init__(self) -> None:
        super().__init__(1, "jetbridge-failed-login")
        self._lock = threading.Lock()
        self._one_sleeps = threading.Lock()
        self._ended = threading.Event()
        # Addresses with the names of the right tokens that were used there, and those of guessers.
        self._known: MutableMapping[tuple[str, str], None] = TTLCache(_MOST_KNOWN, _KNOWN_SECONDS)
        self._guessers: MutableMapping[str, None] = TTLCache(_MOST_KNOWN, _KNOWN_SECONDS)
        self._left, self._counted = float(_AT_ONCE), time.monotonic()
        self._waiting = self._unlogged = 0
        self._logged = float("-inf")

    def crowded(self) -> bool:
        with self._lock:
            return self._waiting >= _MOST_WAITING

    def admit(self, peer: str, token: str, *, crowded: bool) -> None:
        """Refuses a right token of a guesser, as a wrong one, if it was crowded when it came."""
        address = _address(peer)
        with self._lock:
            # Of a full cache some may have been forgotten.
            may_guess = address in self._guessers or len(self._guessers) >= _MOST_KNOWN
            if crowded and may_guess and (address, token) not in self._known:
                raise too_many()
            self._known[address, token] = None

    def note(self, peer: str) -> None:
        """A line in the log for the first one, and then one for all of some seconds."""
        now = time.monotonic()
        with self._lock:
            self._guessers[_address(peer)] = None
            self._unlogged += 1
            if now - self._logged < _LOG_SECONDS:
                return
            count, self._unlogged, self._logged = self._unlogged, 0, now
        _log.warning("calls with an unknown token were refused: %d, the last from %s", count, peer)

    def sleep(self) -> None:
        """Before a failed login is answered by the thread of its call; one after the other."""
        with self._one_sleeps:
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
            self._counted = time.monotonic()  # nothing is regained while some wait
        fn(*args, **kwargs)


def _address(peer: str) -> str:
    """Without the port, which each connection has for itself."""
    return peer.rpartition(":")[0]


def too_many() -> Unavailable:
    return Unavailable("too many calls with unknown tokens; try again later")

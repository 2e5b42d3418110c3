"""Logs calls with an unknown token, and slows them down if there are many.

A call with a right token is answered at once, so a caller who waits a moment knows that a guess was
wrong. Therefore only a few refused calls may wait for their answer at a time. While the maximum
waits, an address that has sent unknown tokens does not learn whether a token is right, unless that
token was used from this address before.
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

# So many failed logins are answered at once; after them one per pause, from any address.
_AT_ONCE = 40
_PAUSE_SECONDS = 0.5
# While so many wait for their answer, addresses with failed logins are refused unjudged.
_MOST_WAITING = 16
_LOG_SECONDS = 10.0
# Right and wrong tokens of an address are remembered for this time.
_KNOWN_SECONDS = 3600.0
_MOST_KNOWN = 10_000


class FailedLogins(ThreadPoolExecutor):
    """Answer failed logins in a pool of one thread, which sleeps before each answer."""

    def __init__(self) -> None:
        super().__init__(1, "jetbridge-failed-login")
        self._lock = threading.Lock()
        self._sleep_lock = threading.Lock()
        self._ended = threading.Event()
        # Pairs of an address and the name of a right token, and the addresses of wrong tokens.
        self._known: MutableMapping[tuple[str, str], None] = TTLCache(_MOST_KNOWN, _KNOWN_SECONDS)
        self._guessers: MutableMapping[str, None] = TTLCache(_MOST_KNOWN, _KNOWN_SECONDS)
        self._left, self._counted = float(_AT_ONCE), time.monotonic()
        self._waiting = self._unlogged = 0
        self._logged = float("-inf")

    def is_crowded(self) -> bool:
        """Return whether the maximum of failed logins waits for an answer."""
        with self._lock:
            return self._waiting >= _MOST_WAITING

    def admit(self, peer: str, token: str, *, crowded: bool) -> None:
        """Raise Unavailable for a right token that must be answered like a wrong one.

        That is a token which this address has not used before, if the address has failed logins
        and the call came while many of them were waiting (`crowded`).
        """
        address = _address(peer)
        with self._lock:
            # A full cache may have dropped the address.
            may_guess = address in self._guessers or len(self._guessers) >= _MOST_KNOWN
            if crowded and may_guess and (address, token) not in self._known:
                raise too_many_failed_logins()
            self._known[address, token] = None

    def note(self, peer: str) -> None:
        """Log the first failed login, and afterwards one line for all of the last seconds."""
        current_time = time.monotonic()
        with self._lock:
            self._guessers[_address(peer)] = None
            self._unlogged += 1
            if current_time - self._logged < _LOG_SECONDS:
                return
            count, self._unlogged, self._logged = self._unlogged, 0, current_time
        _log.warning("calls with an unknown token were refused: %d, the last from %s", count, peer)

    def sleep(self) -> None:
        """Wait before the thread of a call answers a failed login; one call at a time."""
        with self._sleep_lock:
            self._ended.wait(_PAUSE_SECONDS)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the function at once, or in the pool if there were many failed logins."""
        done: Future[Any] = Future()
        done.set_result(None)
        if self._answers_at_once():
            fn(*args, **kwargs)
        else:
            super().submit(self._slowly, fn, *args, **kwargs)
        return done

    def end(self) -> None:
        """Answer all waiting calls at once, because the server stops."""
        self._ended.set()

    def _answers_at_once(self) -> bool:
        current_time = time.monotonic()
        with self._lock:
            regained = (current_time - self._counted) / _PAUSE_SECONDS
            self._left, self._counted = min(_AT_ONCE, self._left + regained), current_time
            at_once = self._left >= 1 and not self._waiting
            self._left -= at_once
            self._waiting += not at_once
        return at_once

    def _slowly(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._ended.wait(_PAUSE_SECONDS)
        with self._lock:
            self._waiting -= 1
            self._counted = time.monotonic()  # do not count up while calls wait
        fn(*args, **kwargs)


def _address(peer: str) -> str:
    """Return the address of a peer without the port, which differs per connection."""
    return peer.rpartition(":")[0]


def too_many_failed_logins() -> Unavailable:
    """Return the error for a call whose token is not judged."""
    return Unavailable("too many calls with unknown tokens; try again later")

"""Memory and disk that statements of clients may use: all of one server share one limit.

Each call of `run` opens a DuckDB of its own. A call takes its share when it begins and gives it
back when it ends. It never waits for one: a call that finds too little is refused.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jetbridge.config.limits import Limits, Shares
from jetbridge.errors import LimitExceeded

# DuckDB sorts and joins tens of millions of rows in this, in one thread; with more it spills.
MINIMUM = 64_000_000
# A call takes a third of what is left, so that some calls fit and the first ones have much.
_PART = 3


@dataclass(frozen=True)
class StatementShare:
    """Of one call."""

    memory_bytes: int
    spill_bytes: int

    @property
    def threads(self) -> int:
        """More would each hold blocks until none is left for a sort to go on."""
        return max(1, self.memory_bytes // MINIMUM)


class StatementMemory:
    def __init__(self, memory_bytes: int, limits: Limits, tokens: int) -> None:
        """Where there are several tokens, one of them has at most half."""
        self._all = memory_bytes
        self._of_token = memory_bytes // 2 if tokens > 1 else memory_bytes
        self._minimum = min(MINIMUM, self._of_token)
        self._staged_bytes = limits.staged_bytes
        self._staged_of_token = Shares.of(limits, tokens).staged_bytes
        # The garbage collector ends calls in any thread, also in one that has the lock.
        self._lock = threading.RLock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def reserve(self, owner: str) -> Iterator[StatementShare]:
        with self._lock:
            memory = self._part(owner)
            self._taken[owner] += memory
        try:
            yield StatementShare(memory, self._spill(memory))
        finally:
            with self._lock:
                self._taken[owner] -= memory
                if not self._taken[owner]:
                    del self._taken[owner]

    def _part(self, owner: str) -> int:
        of_token = self._of_token - self._taken[owner]
        left = min(of_token, self._all - self._taken.total())
        if left < self._minimum:
            by_itself = of_token < self._minimum and self._of_token < self._all
            who = f"of token {owner!r}" if by_itself else "on this server"
            raise LimitExceeded(
                f"the calls of run {who} use all the memory they may have; try again when one has "
                "ended, or raise sql.memory_limit"
            )
        return max(self._minimum, left // _PART)

    def _spill(self, memory: int) -> int:
        """The token's disk is divided as its memory is, so that its calls never exceed it."""
        if self._staged_of_token is None:
            return self._staged_bytes
        return min(self._staged_bytes, self._staged_of_token * memory // max(1, self._of_token))

"""Whether somebody still waits for a statement, and what ends it early where nobody does.

    with cancellation.scope() as statement:            # in the thread that works
        with cancellation.current().on_cancel(cursor.interrupt):
            cursor.execute(...)
        with cancellation.current().publishing():      # refused once it was cancelled
            commit()

    statement.cancel()                                 # in any other thread

`current()` belongs to a thread. Work that another thread does, and rows that another thread takes,
are `within` the cancellation of the statement they are for. What clears up is `shielded`.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from typing import Any, Protocol, TypeVar

from jetbridge.errors import Cancelled, ServerError

log = logging.getLogger(__name__)

T = TypeVar("T")
Interrupt = Callable[[], object]


class Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


# An interrupt may come a moment before the work that it is meant for, so it comes again.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# Locks cannot be interrupted: whoever waits for one looks up so often.
_LOOK_UP = 0.05
_END: Any = object()


class Cancellation:
    """Of one statement or call; may be used from any thread."""

    def __init__(self) -> None:
        self._outer: Cancellation | None = None
        self._error: ServerError | None = None
        self._interrupts: list[Interrupt] = []
        self._publishing = 0
        self._published = False
        # What a publication has failed with: it may have been made, which the error says.
        self._failed: BaseException | None = None
        self._runs = False
        # The garbage collector closes generators in the midst of anything, so both are taken again
        # by the thread that has them.
        self._lock = threading.RLock()
        # Held while interrupts are called: what has left its block is never interrupted.
        self._calling = threading.RLock()

    def cancel(self, error: ServerError | None = None) -> None:
        """Ends what runs, with this error; the first one counts. Returns at once."""
        with self._lock:
            if self._error is None:
                self._error = error or Cancelled("the call was cancelled")
        self._start()

    def error(self) -> ServerError | None:
        """What the statement ends with, if it was cancelled and has not begun to publish."""
        if self._publishing:
            return None
        error = self._error or (self._outer.error() if self._outer else None)
        # A new one each time: one object would collect the tracebacks of all who raise it.
        return None if error is None else copy(error)

    def check(self) -> None:
        """Raises the error, if it was cancelled."""
        error = self.error()
        if error is not None:
            raise error

    def wait(self, seconds: float) -> None:
        """Sleeps; raises the error as soon as it is cancelled."""
        ended = threading.Event()
        with self.on_cancel(ended.set):
            ended.wait(seconds)
        self.check()

    def poll(self, attempt: Callable[[float], bool]) -> None:
        """Waits until `attempt`, which gets seconds, succeeds; raises the error if cancelled."""
        while not attempt(_LOOK_UP):
            self.check()

    @contextmanager
    def holding(self, lock: Lock) -> Iterator[None]:
        """`with lock`, but whoever waits for it raises the error as soon as it is cancelled."""
        self.poll(lambda seconds: lock.acquire(timeout=seconds))
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def on_cancel(self, interrupt: Interrupt) -> Iterator[None]:
        """Calls `interrupt` from another thread, again and again, until the block has ended.

        An exception that leaves the block then becomes the error of the cancellation, unless it
        comes from a publication.
        """
        self.check()
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            self._start()
            yield
        except Exception as raised:
            error = self.error()
            if error is None or _says(raised, error) or self._has_failed_with(raised):
                raise
            raise error from raised
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)
            with self._calling:
                pass

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """The last check, and then what cannot be taken back, which is not interrupted."""
        with self._calling:
            self.check()
            with self._lock:
                self._publishing += 1
        try:
            yield
        except BaseException as error:
            for each in self._and_outer():
                each._failed = error
            raise
        else:
            for each in self._and_outer():
                each._published = True
        finally:
            with self._lock:
                self._publishing -= 1

    def has_published(self) -> bool:
        """Whether something of it cannot be taken back any more."""
        return self._published

    def _and_outer(self) -> "Iterator[Cancellation]":
        """Without `_nobody`, which lives as long as the process."""
        each: Cancellation | None = self
        while each is not None and each is not _nobody:
            yield each
            each = each._outer

    def _has_failed_with(self, raised: BaseException | None) -> bool:
        """Whether the error, or what it was made of, comes from a publication."""
        seen = set()
        while self._failed is not None and raised is not None and id(raised) not in seen:
            if raised is self._failed:
                return True
            seen.add(id(raised))
            raised = raised.__cause__ or raised.__context__
        return False

    def _start(self) -> None:
        """Begins to interrupt, if there is something to interrupt and nobody does yet."""
        with self._lock:
            if self._error is None or not self._interrupts or self._runs:
                return
            self._runs = True
        try:
            threading.Thread(target=self._run, name="jetbridge-cancel", daemon=True).start()
        except RuntimeError as error:  # out of threads: the next to cancel or to begin tries again
            with self._lock:
                self._runs = False
            log.warning("a cancelled statement is not interrupted: %s", error)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while self._interrupted():
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _interrupted(self) -> bool:
        """Whether there is still something to interrupt."""
        with self._calling:
            with self._lock:
                interrupts = list(self._interrupts)
                self._runs = bool(interrupts)
                publishing = self._publishing
            for interrupt in () if publishing else interrupts:
                if interrupt not in self._interrupts:  # left by what this thread did meanwhile
                    continue
                try:
                    interrupt()
                except Exception as error:
                    log.debug("an interrupt failed", exc_info=error)
        return bool(interrupts)


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)
_nobody = Cancellation()


def current() -> Cancellation:
    """That of the statement this thread works for; one that nobody cancels where there is none."""
    return _current.get() or _nobody


@contextmanager
def scope(inner: Cancellation | None = None) -> Iterator[Cancellation]:
    """`current()` for the time of the block; it ends with the one around it."""
    inner = inner or Cancellation()
    with _linked(inner), _as_current(inner):
        yield inner


@contextmanager
def _linked(inner: Cancellation) -> Iterator[None]:
    inner._outer = outer = current()
    with outer.on_cancel(lambda: inner.cancel(outer.error())):
        yield


@contextmanager
def shielded() -> Iterator[None]:
    """For clearing up, which a statement does after it was cancelled, too."""
    with _as_current(None):
        yield


@contextmanager
def limited(seconds: float | None, error: ServerError) -> Iterator[None]:
    """What takes longer than this ends with the error."""
    with scope() as inner:
        if seconds is None:
            yield
            return
        timer = threading.Timer(seconds, inner.cancel, (error,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def within(cancellation: Cancellation, items: Iterable[T]) -> Iterator[T]:
    """The same items, each made for this cancellation, whichever thread takes it."""
    return _within(cancellation, items, lambda: False)


def answering(call: Cancellation, answers: Iterable[T]) -> Iterator[T]:
    """The same, to the end of a statement that was published: it must not look as if it failed.

    Where a statement comes after it, that one is refused by its own `scope`.
    """
    return _within(call, answers, call.has_published)


def _within(
    cancellation: Cancellation, items: Iterable[T], is_done: Callable[[], bool]
) -> Iterator[T]:
    with closing(_closable(iter(items))) as iterator:
        while True:
            with _as_current(cancellation):
                if not is_done():
                    cancellation.check()
                item = next(iterator, _END)
            if item is _END:
                return
            yield item


def own_scope(inner: Cancellation, items: Iterable[T]) -> Iterator[T]:
    """The same items, made for `inner`, which ends with whoever takes the first of them."""
    with _linked(inner):
        yield from within(inner, items)


def _says(raised: Exception, error: Exception) -> bool:
    """Whether it is the error, to which more may have been added."""
    return type(raised) is type(error) and str(raised).startswith(str(error))


def _closable(items: Iterator[T]) -> Any:
    return items if hasattr(items, "close") else (item for item in items)


@contextmanager
def _as_current(cancellation: Cancellation | None) -> Iterator[None]:
    token = _current.set(cancellation)
    try:
        yield
    finally:
        with suppress(ValueError):  # the garbage collector closes generators in any thread
            _current.reset(token)

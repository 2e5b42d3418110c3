"""Cancels statements: ends them when their caller is gone, and interrupts what they do.

    with cancellation.scope() as statement:            # in the thread that works
        with cancellation.current().on_cancel(cursor.interrupt):
            cursor.execute(...)
        with cancellation.current().publishing():      # raises once it was cancelled
            commit()

    statement.cancel()                                 # in any other thread

`current()` belongs to a thread. If another thread does the work or takes the rows, wrap these in
`within` with the cancellation of their statement. Wrap what cleans up in `shield`.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from typing import Any, Protocol, TypeVar, runtime_checkable

from jetbridge.errors import Cancelled, ServerError

log = logging.getLogger(__name__)

T = TypeVar("T")
Interrupt = Callable[[], object]


@runtime_checkable
class Closable(Protocol):
    """Describe an iterator that holds something until it is closed, such as a generator."""

    def close(self) -> None: ...


class Lock(Protocol):
    """Describe a lock of `threading`, or another that can be waited for with a timeout."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


# An interrupt may come a moment before the work that it is for, so it is repeated.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# Waiting for a lock cannot be interrupted, so it checks for cancellation this often.
_POLL_SECONDS = 0.05
_END: Any = object()


class Cancellation:
    """Cancel one statement or call, from any thread."""

    def __init__(self) -> None:
        self._outer: Cancellation | None = None
        self._error: ServerError | None = None
        self._interrupts: list[Interrupt] = []
        self._publishing = 0
        self._published = False
        # The error of a publication that failed; it says whether something was published.
        self._failed: BaseException | None = None
        self._runs = False
        # The garbage collector closes generators at any moment, so a thread may take both locks
        # again while it has them.
        self._lock = threading.RLock()
        # Held while interrupts are called: code that has left its block is never interrupted.
        self._calling = threading.RLock()

    def cancel(self, error: ServerError | None = None) -> None:
        """End the statement with this error, and return at once; the first error counts."""
        with self._lock:
            if self._error is None:
                self._error = error or Cancelled("the call was cancelled")
        self._start()

    def error(self) -> ServerError | None:
        """Return the error that ends the statement; None if it runs or has begun to publish."""
        if self._publishing:
            return None
        error = self._error or (self._outer.error() if self._outer else None)
        # A copy each time: one object would collect the tracebacks of all threads that raise it.
        return None if error is None else copy(error)

    def check(self) -> None:
        """Raise the error if the statement was cancelled."""
        error = self.error()
        if error is not None:
            raise error

    def wait(self, seconds: float) -> None:
        """Sleep; raise the error as soon as the statement is cancelled."""
        ended = threading.Event()
        with self.on_cancel(ended.set):
            ended.wait(seconds)
        self.check()

    def poll(self, attempt: Callable[[float], bool]) -> None:
        """Call `attempt` with a timeout until it returns True; raise the error if cancelled."""
        while not attempt(_POLL_SECONDS):
            self.check()

    @contextmanager
    def holding(self, lock: Lock) -> Iterator[None]:
        """Hold a lock; raise the error if the statement is cancelled while it waits for it."""
        self.poll(lambda seconds: lock.acquire(timeout=seconds))
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def on_cancel(self, interrupt: Interrupt) -> Iterator[None]:
        """Once cancelled, call `interrupt` from another thread until the block has ended.

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
            if error is None or _repeats(raised, error) or self._has_failed_with(raised):
                raise
            raise error from raised
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)
            with self._calling:
                pass

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Check for the last time; then the block publishes, and is not interrupted."""
        with self._calling:
            self.check()
            with self._lock:
                self._publishing += 1
        try:
            yield
        except BaseException as error:
            for cancellation in self._with_outer():
                cancellation._failed = error
            raise
        else:
            for cancellation in self._with_outer():
                cancellation._published = True
        finally:
            with self._lock:
                self._publishing -= 1

    def has_published(self) -> bool:
        """Return whether the statement has published something."""
        return self._published

    def _with_outer(self) -> "Iterator[Cancellation]":
        """Yield this cancellation and those around it, but not `_nobody`, which never ends."""
        current: Cancellation | None = self
        while current is not None and current is not _nobody:
            yield current
            current = current._outer

    def _has_failed_with(self, raised: BaseException | None) -> bool:
        """Return whether the error, or one of its causes, comes from a publication."""
        checked = set()
        while self._failed is not None and raised is not None and id(raised) not in checked:
            if raised is self._failed:
                return True
            checked.add(id(raised))
            raised = raised.__cause__ or raised.__context__
        return False

    def _start(self) -> None:
        """Start the thread that interrupts, if there is something to interrupt and none runs."""
        with self._lock:
            if self._error is None or not self._interrupts or self._runs:
                return
            self._runs = True
        try:
            threading.Thread(target=self._run, name="jetbridge-cancel", daemon=True).start()
        except RuntimeError as error:  # out of threads: the next call of this method tries again
            with self._lock:
                self._runs = False
            log.warning("cannot interrupt a cancelled statement: %s", error)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while self._interrupt_all():
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _interrupt_all(self) -> bool:
        """Call the interrupts; return whether there were any."""
        with self._calling:
            with self._lock:
                interrupts = list(self._interrupts)
                self._runs = bool(interrupts)
                publishing = self._publishing
            for interrupt in () if publishing else interrupts:
                if interrupt not in self._interrupts:  # an earlier interrupt has ended its block
                    continue
                try:
                    interrupt()
                except Exception as error:
                    log.debug("an interrupt failed", exc_info=error)
        return bool(interrupts)


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)
_nobody = Cancellation()


def current() -> Cancellation:
    """Return the cancellation of this thread's statement; without one, one that never comes."""
    return _current.get() or _nobody


@contextmanager
def scope(inner: Cancellation | None = None) -> Iterator[Cancellation]:
    """Make a cancellation `current()` for the block; it is cancelled with the one around it."""
    inner = inner or Cancellation()
    with _link(inner), _as_current(inner):
        yield inner


@contextmanager
def _link(inner: Cancellation) -> Iterator[None]:
    inner._outer = outer = current()
    with outer.on_cancel(lambda: inner.cancel(outer.error())):
        yield


@contextmanager
def shield() -> Iterator[None]:
    """Run the block, which cleans up, even if the statement was cancelled."""
    with _as_current(None):
        yield


@contextmanager
def limit_time(seconds: float | None, error: ServerError) -> Iterator[None]:
    """End the block with the error if it takes longer; None is no limit."""
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
    """Yield the items, each computed under this cancellation, whichever thread takes it."""
    return _within(cancellation, items, lambda: False)


def answering(call: Cancellation, answers: Iterable[T]) -> Iterator[T]:
    """Yield the answers of a call; once it has published, to the end.

    Otherwise a statement that was published would look as if it failed. If another statement
    follows, its own `scope` refuses that.
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
    """Yield the items under `inner`, cancelled with the statement that takes the first item."""
    with _link(inner):
        yield from within(inner, items)


def _repeats(raised: Exception, error: Exception) -> bool:
    """Return whether an exception is the error, perhaps with more text behind it."""
    return type(raised) is type(error) and str(raised).startswith(str(error))


def _closable(items: Iterator[T]) -> Any:
    return items if isinstance(items, Closable) else (item for item in items)


@contextmanager
def _as_current(cancellation: Cancellation | None) -> Iterator[None]:
    token = _current.set(cancellation)
    try:
        yield
    finally:
        with suppress(ValueError):  # the garbage collector closes generators in any thread
            _current.reset(token)

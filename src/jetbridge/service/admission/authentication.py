"""Checks the bearer tokens of calls, answers handshakes, and slows down failed logins.

A call with a right token is answered at once, so a caller who waits a moment knows that a guess was
wrong. Therefore only a few refused calls may wait for their answer at a time. While the maximum
waits, an address that has sent unknown tokens does not learn whether a token is right, unless that
token was used from this address before.
"""

import base64
import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from cachetools import TTLCache
from google.protobuf.message import DecodeError

from jetbridge.config.model import Openness, Token
from jetbridge.errors import BadRequest, Unauthenticated, Unavailable
from jetbridge.service.admission.prefetch import only_message
from jetbridge.service.call_context import CallContext
from jetbridge.wire.flight_pb2 import HandshakeRequest, HandshakeResponse

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


_BEARER_HINT = (
    "in DuckDB: CREATE SECRET (TYPE airport, auth_token '...', SCOPE 'grpc://host:port'), "
    "because scans read the token only from there"
)
_LOGIN_HINT = (
    "send it in the header authorization, as 'Bearer <token>' or 'Basic <base64 of name:token>'; "
    "server.open_handshake lets handshakes send it in their message"
)


class UnknownToken(Unauthenticated):
    """Report a token that no configured one matches, unlike a call without any token."""


class Authenticator:
    """Find the token of a caller by its headers or by the message of its handshake.

    If no tokens are configured, everyone may call; the server then listens on loopback only.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        failed_logins: FailedLogins,
        openness: Openness,
        message_seconds: float,
    ) -> None:
        self._tokens, self._failed_logins = tuple(tokens), failed_logins
        self.message_seconds, self._openness = message_seconds, openness

    def authenticate(self, headers: Mapping[str, str]) -> Token | None:
        """Return the token in the headers, or None if the server has no tokens.

        Raises Unauthenticated for a missing or unknown token.
        """
        if not self._tokens:
            return None
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if not secret:
            raise Unauthenticated(f"a bearer token is required; {_BEARER_HINT}")
        if scheme.lower() != "bearer":
            raise Unauthenticated("the authorization header must be 'Bearer <token>'")
        return self._match(secret)

    def check_handshake(self, headers: Mapping[str, str]) -> Token | None:
        """Return the token in the headers of a handshake; None if its message may have one.

        Raises Unauthenticated for an unknown token, and for a missing one if the server does not
        read tokens from messages.
        """
        if not self._tokens:
            return None
        if not self.has_login(headers):
            if self._openness.handshake:
                return None
            raise Unauthenticated(f"a token is required: {_LOGIN_HINT}")
        scheme, _, credentials = headers["authorization"].partition(" ")
        return self._match(_password(credentials) if scheme.lower() == "basic" else credentials)

    def has_login(self, headers: Mapping[str, str]) -> bool:
        """Return whether the headers have a login, so that no message has to be read."""
        scheme = headers.get("authorization", "").partition(" ")[0]
        return scheme.lower() in ("basic", "bearer")

    def handshake(
        self, requests: Iterator[bytes], call: CallContext
    ) -> Iterator[HandshakeResponse]:
        """Answer a Basic header (`name:token`), a Bearer header or a payload with the token."""
        token = self.check_handshake(call.headers)
        if token is None and self._tokens:
            token = self._read_payload(requests, call)
        secret = str(token.secret) if token else ""
        if secret:
            call.context.send_initial_metadata((("authorization", f"Bearer {secret}"),))
        yield HandshakeResponse(payload=secret.encode())

    def _read_payload(self, requests: Iterator[bytes], call: CallContext) -> Token:
        """Read the token from the only message, because unknown callers reach this code, too."""
        payload = _payload(only_message(requests, self.message_seconds))
        if not payload:
            raise Unauthenticated(f"a token is required; {_BEARER_HINT}")
        try:
            return self._match(payload.decode("utf-8", "replace"))
        except UnknownToken:
            self._failed_logins.note(call.context.peer())
            self._failed_logins.sleep()
            raise

    def _match(self, secret: str) -> Token:
        match = None
        for token in self._tokens:  # compare all, so that the time does not depend on the secret
            if hmac.compare_digest(secret.encode(), str(token.secret).encode()):
                match = token
        if match is None:
            raise UnknownToken("this server does not know the bearer token")
        return match


def _payload(request: bytes) -> bytes:
    try:
        return HandshakeRequest.FromString(request).payload
    except (DecodeError, ValueError) as error:
        raise BadRequest("the request is not a HandshakeRequest") from error


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except ValueError as error:  # the header is not ASCII, not base64, or its bytes not UTF-8
        raise Unauthenticated(
            "the Basic credentials are not valid; send 'Basic <base64 of name:token>'"
        ) from error

"""Checks the bearer tokens of calls and answers handshakes."""

import base64
import hmac
from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError

from jetbridge.config.limits import Openness, Token
from jetbridge.errors import BadRequest, Unauthenticated
from jetbridge.service.admission.failed_logins import FailedLogins
from jetbridge.service.admission.prefetch import only_message
from jetbridge.service.call_context import CallContext
from jetbridge.wire.flight_pb2 import HandshakeRequest, HandshakeResponse

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

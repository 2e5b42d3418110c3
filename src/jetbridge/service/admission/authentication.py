"""Bearer tokens."""

import base64
import hmac
from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError

from jetbridge.config.limits import Openness, Token
from jetbridge.errors import BadRequest, Unauthenticated
from jetbridge.service.admission.failed_logins import FailedLogins
from jetbridge.service.admission.prefetch import only_message
from jetbridge.service.call_context import Call
from jetbridge.wire.flight_pb2 import HandshakeRequest, HandshakeResponse

_HINT = (
    "in DuckDB: CREATE SECRET (TYPE airport, auth_token '...', SCOPE 'grpc://host:port'), "
    "because scans take the token from there only"
)


_LOGIN = (
    "send it in the header authorization, as 'Bearer <token>' or 'Basic <base64 of name:token>'; "
    "server.open_handshake lets handshakes send it in their message"
)


class UnknownToken(Unauthenticated):
    """A failed login, unlike a call that has no token at all."""


class Authenticator:
    """Without tokens everyone may call; the server then listens on loopback only."""

    def __init__(
        self,
        tokens: Sequence[Token],
        failed: FailedLogins,
        openness: Openness,
        message_seconds: float,
    ) -> None:
        self._tokens, self._failed = tuple(tokens), failed
        self.message_seconds, self._openness = message_seconds, openness

    def authenticate(self, headers: Mapping[str, str]) -> Token | None:
        if not self._tokens:
            return None
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if not secret:
            raise Unauthenticated(f"a bearer token is required; {_HINT}")
        if scheme.lower() != "bearer":
            raise Unauthenticated("the authorization header must be 'Bearer <token>'")
        return self._match(secret)

    def check_handshake(self, headers: Mapping[str, str]) -> Token | None:
        """Who logs in, if a header says that; refuses an unknown one."""
        if not self._tokens:
            return None
        if not self.is_told_by(headers):
            if self._openness.handshake:
                return None
            raise Unauthenticated(f"a token is required: {_LOGIN}")
        scheme, _, credentials = headers["authorization"].partition(" ")
        return self._match(_password(credentials) if scheme.lower() == "basic" else credentials)

    def is_told_by(self, headers: Mapping[str, str]) -> bool:
        """Whether a handshake says who calls without a message."""
        scheme = headers.get("authorization", "").partition(" ")[0]
        return scheme.lower() in ("basic", "bearer")

    def handshake(self, requests: Iterator[bytes], call: Call) -> Iterator[HandshakeResponse]:
        """Answers a Basic header (`name:token`), a Bearer header or a payload by the token."""
        token = self.check_handshake(call.headers)
        if token is None and self._tokens:
            token = self._read_payload(requests, call)
        secret = str(token.secret) if token else ""
        if secret:
            call.context.send_initial_metadata((("authorization", f"Bearer {secret}"),))
        yield HandshakeResponse(payload=secret.encode())

    def _read_payload(self, requests: Iterator[bytes], call: Call) -> Token:
        """Everyone may call, so no more than one message is read."""
        payload = _payload(only_message(requests, self.message_seconds))
        if not payload:
            raise Unauthenticated(f"a token is required; {_HINT}")
        try:
            return self._match(payload.decode("utf-8", "replace"))
        except UnknownToken:
            self._failed.note(call.context.peer())
            self._failed.sleep()
            raise

    def _match(self, secret: str) -> Token:
        found = None
        for token in self._tokens:  # all of them, so that the time tells nothing
            if hmac.compare_digest(secret.encode(), str(token.secret).encode()):
                found = token
        if found is None:
            raise UnknownToken("the bearer token is not known to this server")
        return found


def _payload(request: bytes) -> bytes:
    try:
        return HandshakeRequest.FromString(request).payload
    except (DecodeError, ValueError) as error:
        raise BadRequest("the request is not a HandshakeRequest") from error


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except ValueError as error:  # of base64, of what it holds, or of a header that is not ASCII
        raise Unauthenticated("the Basic credentials cannot be read") from error

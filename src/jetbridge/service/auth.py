"""Bearer tokens."""

import base64
import binascii
import hmac
from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError

from jetbridge.errors import BadRequest, Unauthenticated
from jetbridge.service.admission import Gate
from jetbridge.service.calls import Call
from jetbridge.service.settings import Token
from jetbridge.wire.flight_pb2 import HandshakeRequest, HandshakeResponse

_HINT = (
    "in DuckDB: CREATE SECRET (TYPE airport, auth_token '...', SCOPE 'grpc://host:port'), "
    "because scans take the token from there only"
)

# They need no token, so they must not use up the calls of those who have one.
_MOST_HANDSHAKES = 16


class Authenticator:
    """Without tokens everyone may call; the server then listens on loopback only."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tuple(tokens)
        self._gate = Gate("handshakes", _MOST_HANDSHAKES)

    def authenticate(self, headers: Mapping[str, str]) -> Token | None:
        if not self._tokens:
            return None
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if not secret:
            raise Unauthenticated(f"a bearer token is required; {_HINT}")
        if scheme.lower() != "bearer":
            raise Unauthenticated("the authorization header must be 'Bearer <token>'")
        return self._match(secret)

    def handshake(self, requests: Iterator[bytes], call: Call) -> Iterator[HandshakeResponse]:
        """Answers a Basic header (`name:token`), a Bearer header or a payload by the token."""
        with self._gate.entered():
            token = self._identify(call.headers, requests) if self._tokens else None
        secret = str(token.secret) if token else ""
        if secret:
            call.context.send_initial_metadata((("authorization", f"Bearer {secret}"),))
        yield HandshakeResponse(payload=secret.encode())

    def _identify(self, headers: Mapping[str, str], requests: Iterator[bytes]) -> Token:
        """Everyone may call, so no more than one message is read, and none where a header says."""
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            return self._match(_password(credentials))
        if scheme.lower() == "bearer":
            return self._match(credentials)
        payload = _payload(next(requests, b""))
        if payload:
            return self._match(payload.decode("utf-8", "replace"))
        raise Unauthenticated(f"a token is required; {_HINT}")

    def _match(self, secret: str) -> Token:
        found = None
        for token in self._tokens:  # all of them, so that the time tells nothing
            if hmac.compare_digest(secret.encode(), str(token.secret).encode()):
                found = token
        if found is None:
            raise Unauthenticated("the bearer token is not known to this server")
        return found


def _payload(request: bytes) -> bytes:
    try:
        return HandshakeRequest.FromString(request).payload
    except (DecodeError, ValueError) as error:
        raise BadRequest("the request is not a HandshakeRequest") from error


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Unauthenticated("the Basic credentials cannot be read") from error

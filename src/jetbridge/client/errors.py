"""gRPC errors as the classes the server raised."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import msgpack
from google.protobuf.message import DecodeError
from grpc import StatusCode

from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    Cancelled,
    Conflict,
    ConstraintViolation,
    DeadlineExceeded,
    DuplicateKey,
    FailedPrecondition,
    LimitExceeded,
    NotFound,
    NotSupported,
    PermissionDenied,
    ServerError,
    Unauthenticated,
    Unavailable,
)

BY_STATUS: dict[StatusCode, type[ServerError]] = {
    StatusCode.INVALID_ARGUMENT: BadRequest,
    StatusCode.ALREADY_EXISTS: AlreadyExists,
    StatusCode.NOT_FOUND: NotFound,
    StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    StatusCode.UNIMPLEMENTED: NotSupported,
    StatusCode.ABORTED: Conflict,
    StatusCode.UNAUTHENTICATED: Unauthenticated,
    StatusCode.PERMISSION_DENIED: PermissionDenied,
    StatusCode.RESOURCE_EXHAUSTED: LimitExceeded,
    StatusCode.UNAVAILABLE: Unavailable,
    StatusCode.CANCELLED: Cancelled,
    StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
}

# With these two codes a ConstraintException in the details says which rule refused the row.
BY_CONSTRAINT: dict[StatusCode, type[ServerError]] = {
    StatusCode.INVALID_ARGUMENT: ConstraintViolation,
    StatusCode.ALREADY_EXISTS: DuplicateKey,
}

# Of our decoders, protobuf, msgpack and Arrow.
_UNREADABLE = (
    BadRequest,
    LimitExceeded,
    DecodeError,
    msgpack.UnpackException,
    ValueError,
    TypeError,
    OSError,
)
_DETAILS = "grpc-status-details-bin"
# How gRPC itself words it when no server answered.
_NOT_REACHED = ("failed to connect", "connection refused", "dns resolution failed")


def translate(error: grpc.RpcError, location: str) -> ServerError:
    """Translate a gRPC error; its `status` is the code received, even without a class for it."""
    status: StatusCode = error.code()
    message = error.details() or status.name
    if status is StatusCode.UNAVAILABLE:
        message = _explain_unavailable(message, location)
    kind = BY_STATUS.get(status, ServerError)
    if _exception_type(error) == "ConstraintException":
        kind = BY_CONSTRAINT.get(status, kind)
    return _rebuild(kind, message, status)


@contextmanager
def reading_answer(what: str) -> Iterator[None]:
    """A malformed answer is the server's fault, although the shared decoders blame a request."""
    try:
        yield
    except _UNREADABLE as error:
        raise ServerError(f"the server's answer to {what} cannot be read: {error}") from error


def _rebuild(kind: type[ServerError], message: str, status: StatusCode) -> ServerError:
    """Without `__init__`: the constructors word a message of their own."""
    error = kind.__new__(kind, message)
    vars(error).update({"status": status.name, "kind": "", "name": ""})
    return error


def _explain_unavailable(message: str, location: str) -> str:
    if any(text in message.lower() for text in _NOT_REACHED):
        return (
            f"cannot reach {location}; is the server running there (jetbridge serve), and is the "
            f"scheme right (grpc:// or grpc+tls://)? gRPC says: {message}"
        )
    return message


def _exception_type(error: grpc.RpcError) -> str:
    trailers: Any = error.trailing_metadata() or ()
    try:
        details: Any = msgpack.unpackb(dict(trailers).get(_DETAILS) or b"\xc0")
    except (msgpack.UnpackException, ValueError):
        return ""
    return str(details.get("exception_type", "")) if isinstance(details, dict) else ""

"""Translates gRPC errors to the classes that the server raised."""

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

# With these two codes, a ConstraintException in the details means that a row breaks a constraint.
BY_CONSTRAINT: dict[StatusCode, type[ServerError]] = {
    StatusCode.INVALID_ARGUMENT: ConstraintViolation,
    StatusCode.ALREADY_EXISTS: DuplicateKey,
}

# The errors of the decoders in wire, of protobuf, msgpack and Arrow.
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
# Parts of gRPC's own messages if no server answered.
_NOT_REACHED = ("failed to connect", "connection refused", "dns resolution failed")


def translate(error: grpc.RpcError, location: str) -> ServerError:
    """Return the error of jetbridge for a gRPC error, with the status code that was received."""
    status: StatusCode = error.code()
    message = error.details() or status.name
    if status is StatusCode.UNAVAILABLE:
        message = _explain_unavailable(message, location)
    error_class = BY_STATUS.get(status, ServerError)
    if _exception_type(error) == "ConstraintException":
        error_class = BY_CONSTRAINT.get(status, error_class)
    return _rebuild(error_class, message, status)


@contextmanager
def reading_answer(title: str) -> Iterator[None]:
    """Raise ServerError if the block cannot decode an answer: the decoders blame a request."""
    try:
        yield
    except _UNREADABLE as error:
        raise ServerError(f"the server's answer to {title} cannot be read: {error}") from error


def _rebuild(error_class: type[ServerError], message: str, status: StatusCode) -> ServerError:
    """Create an error with this message. The constructors would compose one of their own."""
    error = error_class.__new__(error_class, message)
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

"""Every error that may leave the server.

    ServerError                 INTERNAL
    ├── BadRequest              INVALID_ARGUMENT     the request itself is wrong
    │   └── ConstraintViolation                      NOT NULL or CHECK refused a row
    ├── AlreadyExists           ALREADY_EXISTS
    │   └── DuplicateKey                             UNIQUE or PRIMARY KEY refused a row
    ├── NotFound                NOT_FOUND
    ├── FailedPrecondition      FAILED_PRECONDITION  the state of the object forbids it
    ├── NotSupported            UNIMPLEMENTED        the object lacks the capability
    ├── Conflict                ABORTED              someone else changed the same rows
    ├── Unauthenticated         UNAUTHENTICATED
    ├── PermissionDenied        PERMISSION_DENIED
    ├── LimitExceeded           RESOURCE_EXHAUSTED
    ├── Cancelled               CANCELLED            the caller waits no longer
    ├── DeadlineExceeded        DEADLINE_EXCEEDED    the caller did not send in time
    └── Unavailable             UNAVAILABLE

The message is one short sentence that names the object and, where there is one, the remedy.
"""

from typing import ClassVar

from grpc import StatusCode


class ServerError(Exception):
    status: ClassVar[StatusCode] = StatusCode.INTERNAL
    retryable: ClassVar[bool] = False
    # The DuckDB exception class the Airport client raises for it (airport_macros.hpp knows three).
    duckdb_exception: ClassVar[str | None] = None


class BadRequest(ServerError):
    status = StatusCode.INVALID_ARGUMENT
    duckdb_exception = "InvalidInputException"


class ConstraintViolation(BadRequest):
    duckdb_exception = "ConstraintException"


class AlreadyExists(ServerError):
    status = StatusCode.ALREADY_EXISTS

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(f"{kind} {name!r} already exists{hint and '; ' + hint}")
        self.kind, self.name = kind, name


class DuplicateKey(AlreadyExists):
    duckdb_exception = "ConstraintException"

    def __init__(self, message: str) -> None:
        ServerError.__init__(self, message)


class NotFound(ServerError):
    status = StatusCode.NOT_FOUND

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(f"{kind} {name!r} does not exist{hint and '; ' + hint}")
        self.kind, self.name = kind, name


class FailedPrecondition(ServerError):
    status = StatusCode.FAILED_PRECONDITION
    duckdb_exception = "InvalidInputException"


class NotSupported(ServerError):
    status = StatusCode.UNIMPLEMENTED


class Conflict(ServerError):
    status = StatusCode.ABORTED
    retryable = True


class Unauthenticated(ServerError):
    status = StatusCode.UNAUTHENTICATED


class PermissionDenied(ServerError):
    status = StatusCode.PERMISSION_DENIED
    duckdb_exception = "PermissionException"


class LimitExceeded(ServerError):
    status = StatusCode.RESOURCE_EXHAUSTED


class Cancelled(ServerError):
    status = StatusCode.CANCELLED


class DeadlineExceeded(ServerError):
    status = StatusCode.DEADLINE_EXCEEDED


class Unavailable(ServerError):
    status = StatusCode.UNAVAILABLE
    retryable = True

"""What SQL Server says, as errors of this project."""

import pytest

from jetbridge.backends.mssql.errors import number_of, said, translated
from jetbridge.errors import (
    BadRequest,
    Conflict,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    LimitExceeded,
    PermissionDenied,
    ServerError,
    Unavailable,
)

CORE = RuntimeError(
    "Query execution failed: Sql Error: 2627: Class 14: State 1: Violation of PRIMARY KEY "
    "constraint 'pk'. The duplicate key value is (1). on SQL1 in  at line 1"
)
ODBC = RuntimeError(
    "Driver Error: Integrity constraint violation; DDBC Error: [Microsoft][SQL Server]Cannot "
    "insert the value NULL into column 'v'."
)


def test_words_of_the_driver_are_left_out():
    assert number_of(CORE) == 2627
    assert said(CORE) == "Violation of PRIMARY KEY constraint 'pk'. The duplicate key value is (1)."
    assert number_of(ODBC) is None
    assert said(ODBC) == "Cannot insert the value NULL into column 'v'."


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (2627, DuplicateKey),
        (515, ConstraintViolation),
        (547, ConstraintViolation),
        (2628, BadRequest),
        (1205, Conflict),
        (262, PermissionDenied),
        (9002, LimitExceeded),
        (18456, FailedPrecondition),
        (4060, FailedPrecondition),
        (50000, ServerError),
    ],
)
def test_number_decides_the_class_and_is_told(number, kind):
    found = translated(ODBC, number)
    assert type(found) is kind
    assert f"SQL Server says {number}: Cannot insert" in str(found)


def test_without_a_number_the_connection_failed():
    found = translated(RuntimeError("broken pipe"), None, "db/sales")
    assert isinstance(found, Unavailable)
    assert str(found) == "db/sales: the connection to SQL Server failed: broken pipe"


def test_remedy_is_told():
    assert str(translated(ODBC, 18456)).endswith("; check user and password")

"""What SQL Server says, as errors of this project."""

from typing import Any, cast

import pytest

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.opening import connection_error
from jetbridge.backends.mssql.errors import (
    load_error,
    message_of,
    name_errors,
    number_of,
    server_number,
    translate_error,
)
from jetbridge.backends.mssql.write import transactions
from jetbridge.backends.mssql.write.transactions import retry_on_core
from jetbridge.errors import (
    BadRequest,
    Conflict,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    LimitExceeded,
    NotFound,
    NotSupported,
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
    assert (
        message_of(CORE)
        == "Violation of PRIMARY KEY constraint 'pk'. The duplicate key value is (1)."
    )
    assert number_of(ODBC) is None
    assert message_of(ODBC) == "Cannot insert the value NULL into column 'v'."


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
        (40613, Unavailable),
        (3727, FailedPrecondition),
        (18456, FailedPrecondition),
        (4060, FailedPrecondition),
        (50000, ServerError),
    ],
)
def test_number_decides_the_class_and_is_told(number, kind):
    found = translate_error(ODBC, number)
    assert type(found) is kind
    assert f"SQL Server says {number}: Cannot insert" in str(found)


@pytest.mark.parametrize("told", [50000, 8180])
@pytest.mark.parametrize(
    ("words", "number", "kind"),
    [
        ("Invalid object name 'dbo.t'.", 208, NotFound),
        ("Invalid column name 'c'.", 207, Conflict),
        ("The SELECT permission was denied on the object 't', ...", 229, PermissionDenied),
        (
            "Transaction (Process ID 5) was deadlocked on lock resources with another process",
            1205,
            Conflict,
        ),
        (
            "Snapshot isolation transaction failed accessing database 'd' because snapshot "
            "isolation is not allowed in this database.",
            3952,
            FailedPrecondition,
        ),
    ],
)
def test_a_number_that_the_driver_has_covered_is_known_by_the_words(told, words, number, kind):
    raised = RuntimeError(f"Driver Error: x; DDBC Error: [Microsoft][SQL Server]{words}")
    with pytest.raises(ServerError) as found, name_errors("dbo.t"):
        raise translate_error(raised, told)
    assert type(found.value) is kind
    assert server_number(found.value) == number


def test_reads_of_one_moment_that_cannot_be_had_have_a_remedy():
    assert "mssql_snapshot_reads = false" in str(translate_error(ODBC, 3952))
    assert "mssql_snapshot_reads = false" in str(translate_error(ODBC, 41332))


def test_without_a_number_the_connection_failed():
    found = translate_error(RuntimeError("broken pipe"), None, "db/sales")
    assert isinstance(found, Unavailable)
    begins = (
        "db/sales: the connection to SQL Server failed: broken pipe; check that the server runs"
    )
    assert str(found).startswith(begins)


def test_remedy_is_told():
    assert str(translate_error(ODBC, 18456)).endswith("; check user and password")


@pytest.mark.parametrize(
    ("error", "kind", "number"),
    [
        (CORE, DuplicateKey, 2627),
        (
            ValueError("Cannot insert NULL value into non-nullable column 'v'"),
            ConstraintViolation,
            515,
        ),
        (ValueError("String length (9 characters) exceeds schema size (5)"), BadRequest, 2628),
        (RuntimeError("Usage Error: Destination column 'v' not found in table"), BadRequest, 207),
        (TypeError("no such type"), BadRequest, None),
        (RuntimeError("Connection closed"), Unavailable, None),
    ],
)
def test_what_the_driver_refuses_to_load_is_not_a_lost_connection(error, kind, number):
    found = load_error(error)
    assert (type(found), server_number(found)) == (kind, number)


def test_a_column_that_is_gone_is_a_conflict():
    with (
        pytest.raises(Conflict, match=r"^s\.t was altered by another session: .*'v'"),
        name_errors("s.t"),
    ):
        raise load_error(RuntimeError("Usage Error: Destination column 'v' not found in table"))


def test_messages_stay_short():
    long = RuntimeError(f"Sql Error: 2627: Class 14: State 1: {'x' * 5000}")
    assert len(str(translate_error(long, 2627))) < 500


class _Server:
    """Its connections fail, each time with the next of these errors."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def borrow_core(self):
        raise self.errors.pop(0)


def test_a_server_that_is_not_there_is_not_waited_for():
    refused = connection_error(RuntimeError("refused"), None, Address("host", "db"))
    server = _Server(refused, AssertionError("again"))
    with pytest.raises(Unavailable, match="host/db"):
        retry_on_core(cast(Any, server), lambda connection: None)


def test_a_server_that_was_lost_is_waited_for(monkeypatch):
    monkeypatch.setattr(transactions, "_FIRST_PAUSE", 0.0)
    refused = connection_error(RuntimeError("refused"), None, Address("host", "db"))
    server = _Server(Unavailable("lost"), refused, KeyError("third"))
    with pytest.raises(KeyError):
        retry_on_core(cast(Any, server), lambda connection: None)


@pytest.mark.parametrize(
    ("words", "number", "kind"),
    [
        ('relation "nowhere" does not exist', 208, NotFound),
        ('schema "base_s" does not exist', 2760, NotFound),
        ('column "c" does not exist', 207, Conflict),
        ('column "c" of relation "t" does not exist', 207, Conflict),
        ('column "c" of relation "t" already exists', 2705, BadRequest),
        ('invalid input syntax for type integer: "a"', 245, BadRequest),
        ('syntax error at or near "order"', 102, BadRequest),
        ("'MERGE' is not currently supported in Babelfish", 40517, NotSupported),
        ("permission denied for table t", 229, PermissionDenied),
        ("something else", 33557097, ServerError),
    ],
)
def test_what_babelfish_has_no_number_for_is_known_by_its_words(words, number, kind):
    raised = RuntimeError(f"Sql Error: 33557097: Class 16: State 1: {words}")
    with pytest.raises(ServerError) as found, name_errors("s.t"):
        raise translate_error(raised, number_of(raised))
    assert type(found.value) is kind
    assert server_number(found.value) == number

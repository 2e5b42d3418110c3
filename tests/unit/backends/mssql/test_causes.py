"""How a load reports what failed in Spark's workers."""

import traceback
from inspect import isclass

import pytest

from jetbridge import errors
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write import bulk_load, staged_load
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, LoadTask, load_parts
from jetbridge.backends.mssql.write.spool import SpoolPart
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    DuplicateKey,
    LimitExceeded,
    NotFound,
    ServerError,
    Unavailable,
    error_from_text,
)

AROUND = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed
{}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""
TRACEBACK = """Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "task.py", line 2, in load
    raise error
"""
TASK = LoadTask(Address("h", "d"), LoadTarget("[dbo].[t]", ()), "[dbo].[l]", MssqlSettings())


@pytest.fixture(autouse=True)
def _from_spark(monkeypatch):
    monkeypatch.setattr(staged_load, "is_from_spark", lambda error: True)


@pytest.fixture
def reported(monkeypatch):
    """What a load reports, whose worker raises `error`."""

    def report(error: Exception) -> Exception:
        def load_part(*_):
            raise error

        monkeypatch.setattr(bulk_load, "load_part", load_part)
        try:
            list(load_parts(TASK, [SpoolPart(0, ("0.arrow",), 1)]))
        except Exception:  # noqa: BLE001 - Spark reports any
            return staged_load._cause(Exception(AROUND.format(traceback.format_exc())))
        raise AssertionError

    return report


@pytest.mark.parametrize("message", ["SQL Server says 9002: full", "a\nb 'c' \"d\" \\n {é}", ""])
@pytest.mark.parametrize("kind", [ServerError, BadRequest, LimitExceeded, DuplicateKey])
def test_an_error_of_a_worker_keeps_its_class_and_message(reported, kind, message):
    error = reported(kind(message))
    assert (type(error), str(error)) == (kind, message)


@pytest.mark.parametrize("kind", [NotFound, AlreadyExists])
def test_an_error_that_words_its_message_itself_keeps_it(reported, kind):
    error = reported(kind("table", "dbo.t", "look there"))
    assert (type(error), str(error)) == (kind, str(kind("table", "dbo.t", "look there")))


def test_a_class_of_another_module_is_reported_as_the_public_class_above_it(reported):
    moved = type("SlowServer", (Unavailable,), {"__module__": "somewhere.else"})
    error = reported(moved("too slow"))
    assert (type(error), str(error)) == (Unavailable, "too slow")


def test_the_number_of_the_server_is_kept(reported):
    raised = LimitExceeded("full")
    raised.number = 9002
    assert reported(raised).number == 9002


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("MemoryError: no room", "Spark could not load the rows: MemoryError: no"),
        ("pyo3_runtime.PanicException: a\nb", "rows: pyo3_runtime.PanicException: a"),
    ],
)
def test_other_errors_are_reported_without_their_traceback(raised, message):
    error = staged_load._cause(Exception(AROUND.format(TRACEBACK + raised)))
    assert isinstance(error, Unavailable)
    assert message in str(error)
    assert "Traceback" not in str(error)


def test_the_last_record_of_a_text_counts():
    records = [LimitExceeded("first").to_record(), BadRequest("second").to_record()]
    error = error_from_text(f"x {records[0]} y\n{records[1]}, z jetbridge-error: cut")
    assert (type(error), str(error)) == (BadRequest, "second")
    assert error_from_text("jetbridge.errors.BadRequest: second") is None


@pytest.mark.parametrize("kind", [c for c in vars(errors).values() if isclass(c)])
def test_every_class_of_the_tree_has_a_record(kind):
    if issubclass(kind, ServerError):
        error = error_from_text(kind.__new__(kind, "no").to_record())
        assert type(error) is kind

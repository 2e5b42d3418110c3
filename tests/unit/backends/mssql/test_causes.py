"""What is told of a load that failed in Spark's workers."""

import pytest

from jetbridge.backends.mssql.write import staged_load
from jetbridge.errors import LimitExceeded, Unavailable

AROUND = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "task.py", line 2, in load
    raise error
{}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""


@pytest.fixture(autouse=True)
def _from_spark(monkeypatch):
    monkeypatch.setattr(staged_load, "is_from_spark", lambda error: True)


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        ("jetbridge.errors.LimitExceeded: SQL Server says 9002: full", LimitExceeded, "9002"),
        ("MemoryError: no room", Unavailable, "Spark could not load the rows: MemoryError: no"),
        ("pyo3_runtime.PanicException: a\nb", Unavailable, "rows: pyo3_runtime.PanicException: a"),
    ],
)
def test_it_is_what_the_worker_raised(raised, kind, message):
    found = staged_load._cause(Exception(AROUND.format(raised)))
    assert isinstance(found, kind)
    assert message in str(found)
    assert "Traceback" not in str(found)

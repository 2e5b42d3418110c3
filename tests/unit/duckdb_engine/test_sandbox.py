import threading

import duckdb
import pyarrow as pa
import pytest

from jetbridge.duckdb_engine.sandbox import query, session
from jetbridge.errors import BadRequest


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/jetbridge-test.csv'",
        "ATTACH '/tmp/jetbridge-test.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET threads = 1",
        "RESET lock_configuration",
        "EXPORT DATABASE '/tmp/jetbridge-test'",
    ],
)
def test_the_outside_cannot_be_reached(sql):
    with session() as cursor, pytest.raises(duckdb.Error):
        cursor.execute(sql)
    with pytest.raises((duckdb.Error, BadRequest)):
        query(sql)


def test_python_variables_cannot_be_read():
    secret = pa.table({"a": [1]})
    with pytest.raises(duckdb.Error, match="secret"):
        query("SELECT * FROM secret")
    assert secret.num_rows == 1


def test_sessions_do_not_see_each_other():
    with session(pa.table({"a": [1]})) as one, session() as other:
        one.execute("CREATE TEMP TABLE mine (a INTEGER)")
        for name in ("jetbridge_data", "mine"):
            with pytest.raises(duckdb.Error, match=name):
                other.execute(f"SELECT * FROM {name}")


def test_threads_work_side_by_side():
    answers = {}

    def work(number):
        data = pa.table({"a": [number] * 1000})
        for _ in range(5):
            answers[number] = query("SELECT sum(a)::BIGINT AS s FROM jetbridge_data", data)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: t.column(0)[0].as_py() for n, t in answers.items()} == {
        n: n * 1000 for n in range(8)
    }


def test_times_are_read_in_utc():
    answer = query("SELECT CAST('2020-01-01' AS TIMESTAMPTZ) AS t")
    assert answer.schema.field("t").type == pa.timestamp("us", "UTC")
    assert str(answer.column(0)[0].as_py()) == "2020-01-01 00:00:00+00:00"

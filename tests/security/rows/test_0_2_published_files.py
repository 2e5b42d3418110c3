"""What follows a commit may fail: the files that the table names by then stay."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.metadata.table_store import Superseded
from jetbridge.backends.lake.warehouse.spool_tables import (
    parse_schema,
    spool_into_table,
    spool_table,
)
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.errors import Cancelled, NotFound, ServerError, Unavailable
from jetbridge.runtime import cancellation
from tests.conformance.harness import insert, rowids, rows, update
from tests.helpers.lakes import new_lake

pytestmark = pytest.mark.lake

COLUMNS = pa.schema({"id": pa.int64()})
ERRORS = {
    "superseded": Superseded("the metadata of table 's.t' is gone"),
    "renamed at that moment": NotFound("table", "s.t"),
    "cancelled": Cancelled("the call was cancelled"),
}


@pytest.fixture(scope="module")
def lake() -> Iterator[LakeCatalog]:
    made = new_lake()
    made.create_schema(SchemaInfo("s"))
    yield made
    made.close()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("error", ERRORS.values(), ids=list(ERRORS))
@pytest.mark.parametrize("statement", ["insert", "update"])
def test_rows_stay_if_the_table_cannot_be_read_after_the_commit(lake, statement, error):
    schema = lake.load_schema("s")
    schema.create_table(CreateTable("t", COLUMNS))
    try:
        insert(schema.load_table("t"), {"id": [1]})
        table = schema.load_table("t")
        changed = {"rowid": rowids(table, "id", 1), "id": [2]}
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Unavailable, match="published"):
            fail_after_commit(lake, patch, error)
            if statement == "insert":
                insert(table, {"id": [2]})
            else:
                update(table, changed)
        assert rows(schema.load_table("t")) == ([(1,), (2,)] if statement == "insert" else [(2,)])
    finally:
        schema.drop_table("t")


def fail_after_commit(lake: LakeCatalog, patch: pytest.MonkeyPatch, error: ServerError) -> None:
    commits = lake.lake.publisher.committer
    change = commits.commit

    def then_fail(*given):
        change(*given)

        def fail(_):
            raise error

        patch.setattr(lake.lake.tables, "current", fail)

    patch.setattr(commits, "commit", then_fail)


def test_a_spool_table_of_a_cancelled_job_is_dropped(lake):
    with (
        cancellation.scope() as statement,
        lake.lake.warehouse.session("s.t") as session,
        pytest.raises(Cancelled),
        spool_into_table(lake.lake.warehouse, session, "SELECT 1 AS n", "s"),
    ):
        assert len(lake.lake.tables.listing().spools) == 1
        statement.cancel()
        cancellation.current().check()
    assert lake.lake.tables.listing().spools == ()
    assert lake.lake.warehouse.spools == set()


def test_a_spool_table_that_cannot_be_made_is_not_in_use(lake, caplog):
    columns = '{"type": "struct", "schema-id": 0, "fields": []}'
    wrong = {"format-version": "99"}
    with (
        lake.lake.warehouse.session("s.t") as session,
        pytest.raises(Exception, match="v99"),
        spool_table(lake.lake.warehouse, session, "s", parse_schema(session, columns), wrong),
    ):
        pass
    assert lake.lake.warehouse.spools == set()
    assert "left for the sweeper" not in caplog.text

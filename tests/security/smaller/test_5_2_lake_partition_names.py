"""Partitions by columns whose names Avro does not allow: what is written, every engine reads.

Attacked: `SET PARTITIONED BY ("ß")` and an INSERT, after which DuckDB could read no manifest.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance.optimize import OptimizeOptions, optimize
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.warehouse.java_catalog import identifier
from jetbridge.catalog import CreateTable, RenameColumn, SchemaInfo
from jetbridge.client import Client, connect
from jetbridge.errors import Unavailable
from jetbridge.service import Server
from tests.conformance.harness import delete, insert, rowids, rows, update
from tests.helpers.lakes import new_lake
from tests.integration.interop.session import assert_all_agree

pytestmark = pytest.mark.lake


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    made = new_lake()
    made.create_schema(SchemaInfo("s"))
    return made


@pytest.fixture(scope="module")
def client(lake: LakeCatalog) -> Iterator[Client]:
    with Server({"lake": lake}, port=0) as server:
        server.start()
        with connect(server.location, "lake") as connected:
            yield connected


def create(lake: LakeCatalog, name: str, column: str) -> None:
    columns = pa.schema([(column, pa.string()), ("v", pa.int64())])
    lake.load_schema("s").create_table(CreateTable(name, columns))


def state(lake: LakeCatalog, name: str) -> TableState:
    return lake.lake.tables.load("s", name)


def partition_names(lake: LakeCatalog, name: str) -> list[str]:
    """Of the partitions that rows to come are written to."""
    return [field.name for field in state(lake, name).partition_fields]


CASES = {
    "ß": ('"ß"', ["_xDF"]),
    "日本": ('bucket(4, "日本")', ["_x65E5_x672C_bucket_4"]),
    "1é 𝒳": ('truncate(2, "1é 𝒳")', ["_1_xE9_x20_x1D4B3_truncate_2"]),
    "a b": ('"a b"', ["a b"]),  # of this one Iceberg makes a valid name by itself
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("column", CASES)
def test_all_engines_read_what_is_partitioned(
    lake: LakeCatalog, client: Client, column: str
) -> None:
    terms, names = CASES[column]
    table = f"t{[*CASES].index(column)}"
    create(lake, table, column)
    client.set_layout("s", table, partition_by=terms)
    client.insert("s", table, pa.table({column: ["x", "y", None], "v": [1, 2, 3]}))
    assert partition_names(lake, table) == names
    read = pa.table(client.scan("s", table)).select([column, "v"]).sort_by("v")
    assert read.to_pydict() == {column: ["x", "y", None], "v": [1, 2, 3]}
    assert_all_agree(lake, "s", table)


def test_rows_of_such_a_table_change(lake: LakeCatalog) -> None:
    create(lake, "changed", "ß")
    schema = lake.load_schema("s")
    insert(
        schema.load_table("changed").lay_out('"ß"', None), {"ß": ["x", "y", "z"], "v": [1, 2, 3]}
    )
    handle = schema.load_table("changed")
    update(handle, {"v": [20], "rowid": rowids(handle, "v", 2)})
    handle = schema.load_table("changed")
    delete(handle, rowids(handle, "v", 1))
    assert rows(schema.load_table("changed")) == [("y", 20), ("z", 3)]
    assert_all_agree(lake, "s", "changed")


def test_a_name_that_a_column_has_is_not_taken_twice(lake: LakeCatalog) -> None:
    columns = pa.schema([("ß", pa.string()), ("_xDF", pa.string()), ("_xDF_", pa.int64())])
    schema = lake.load_schema("s")
    table = schema.create_table(CreateTable("taken", columns)).lay_out('"ß", "_xDF"', None)
    insert(table, {"ß": ["a"], "_xDF": ["b"], "_xDF_": [1]})
    assert partition_names(lake, "taken") == ["_xDF__", "_xDF"]
    assert rows(schema.load_table("taken")) == [("a", "b", 1)]
    assert_all_agree(lake, "s", "taken")


def test_a_column_that_is_renamed_keeps_the_name_of_its_partition(lake: LakeCatalog) -> None:
    create(lake, "renamed", "ascii")
    schema = lake.load_schema("s")
    schema.load_table("renamed").lay_out("ascii", None)
    insert(schema.load_table("renamed"), {"ascii": ["a"], "v": [1]})
    schema.load_table("renamed").alter(RenameColumn("ascii", "ß"))
    insert(schema.load_table("renamed"), {"ß": ["b"], "v": [2]})
    assert rows(schema.load_table("renamed")) == [("a", 1), ("b", 2)]
    schema.load_table("renamed").lay_out('"ß"', None)  # it is so already
    assert partition_names(lake, "renamed") == ["ascii"]
    assert_all_agree(lake, "s", "renamed")


@pytest.mark.full
def test_a_table_that_others_have_partitioned_so_says_what_to_do_and_that_helps(
    lake: LakeCatalog, client: Client
) -> None:
    create(lake, "others", "ß")
    with lake.lake.warehouse.session("s.others") as session:
        found = session.catalog(lake.lake.name).loadTable(identifier(session, "s", "others"))
        expressions = session.jvm.org.apache.iceberg.expressions.Expressions
        found.updateSpec().addField(expressions.ref("ß")).commit()
    schema = lake.load_schema("s")
    insert(schema.load_table("others"), {"ß": ["a", "b"], "v": [1, 2]})
    with pytest.raises(Unavailable, match=r"SET PARTITIONED BY.*jetbridge optimize"):
        client.scan("s", "others").read_all()

    client.set_layout("s", "others", partition_by='"ß"')
    assert partition_names(lake, "others") == ["_xDF"]
    insert(schema.load_table("others"), {"ß": ["c"], "v": [3]})
    optimize(lake.lake, "s", "others", OptimizeOptions())
    assert rows(schema.load_table("others")) == [("a", 1), ("b", 2), ("c", 3)]
    assert_all_agree(lake, "s", "others")

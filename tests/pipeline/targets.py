"""Where CREATE TABLE AS puts its rows: one line for each kind of catalog that the suite runs on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.mssql.settings import SETTINGS
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.report import ProgressEvent
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from tests.helpers import lakes, mssql_server

# A backend joins here.
TARGETS: dict[str, Callable[[], Any]] = {
    "lake": lakes.new_lake,
    "memory": MemoryCatalog,
    "mssql": lambda: mssql_server.new_catalog(lakes.engine()),
}
SPOOLS = "spools"


def marked(*targets: str) -> list[ParameterSet]:
    """Return the targets as parameters that say what their tests need."""
    return [pytest.param(target, marks=getattr(pytest.mark, target)) for target in targets]


def only_on(*targets: str) -> pytest.MarkDecorator:
    """Run a test that takes the fixture `target` on these alone."""
    return pytest.mark.parametrize("target", marked(*targets), indirect=True)


def spark() -> SparkRunner:
    folder = lakes.folder() / SPOOLS
    return SparkRunner(lakes.engine(), str(folder), lambda: "test")


@dataclass
class Bench:
    """Hold a session over a target called `t` with a schema `dbo`, and look at its tables."""

    kind: str
    session: Session
    catalog: Any
    steps: list[ProgressEvent] = field(default_factory=list)

    def sql(self, text: str) -> pa.Table:
        """Return the rows of the last statement, or its report as a row."""
        answer = pa.table({})
        for outcome in run(self.session, text):
            answer = outcome.table()
        return answer

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        found = self.sql(text)
        columns = [column.to_pylist() for column in found.columns]
        return list(zip(*columns, strict=True))

    def report(self, text: str) -> dict[str, Any]:
        row: dict[str, Any] = self.sql(text).to_pylist()[0]
        return row

    def keyed(self, table: str, column: str = "id") -> None:
        """Add a primary key on SQL Server, which changes rows by it; others need none."""
        if self.kind == "mssql":
            self.sql(f"ALTER TABLE t.dbo.{table} ADD PRIMARY KEY ({column})")

    def columns(self, table: str) -> list[tuple[str, str, bool]]:
        """Return name, DuckDB's type and NOT NULL, as the catalog itself reports them."""
        info = self.catalog.load_schema("dbo").load_table(table).info()
        return [(f.name, duckdb_type(f), not f.nullable) for f in info.schema]

    def tables(self) -> list[str]:
        return [table.info().name for table in self.catalog.load_schema("dbo").list_tables()]

    def left_behind(self) -> list[str]:
        """Return files of spools that still exist."""
        return [str(path) for path in (lakes.folder() / SPOOLS).glob("**/*.parquet")]


@contextmanager
def bench(target: str) -> Iterator[Bench]:
    catalog = TARGETS[target]()
    steps: list[ProgressEvent] = []
    session = Session(
        {"t": catalog},
        SessionResources(spark=spark(), settings=SettingValues(SETTINGS)),
        listener=steps.append,
    )
    made = Bench(target, session, catalog, steps)
    made.sql("CREATE SCHEMA IF NOT EXISTS t.dbo")
    try:
        yield made
    finally:
        session.close()

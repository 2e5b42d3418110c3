"""Runs the stages of a query in plain DuckDB, as several tasks would, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb

from jetbridge.dialects.quoting import identifier, literal
from jetbridge.distributed.stages import Stage, StagedQuery, StageInput, StageScan


@dataclass
class LocalRun:
    """Rows of stages are temporary tables with two more columns: partition and task."""

    connection: duckdb.DuckDBPyConnection
    tasks: int
    stages: dict[int, Stage] = field(default_factory=dict)

    def rows(self, query: StagedQuery) -> list[tuple[object, ...]]:
        """Return the answer; temporary tables are gone afterwards."""
        if query.reason:
            return self.connection.execute(query.stages[0].sql).fetchall()
        try:
            for stage in query.stages:
                self._run(stage)
            tables = (f"(SELECT * FROM {_table(number)})" for number in query.results)
            columns = ", ".join(f"c{index}" for index in range(len(query.names)))
            # One after the other: nobody promises the order of UNION ALL.
            answer = []
            for table in tables:
                answer += self.connection.execute(f"SELECT {columns} FROM {table}").fetchall()
            return answer
        finally:
            for number in self.stages:
                self.connection.execute(f"DROP TABLE IF EXISTS {_table(number)}")
            self.stages.clear()

    def _run(self, stage: Stage) -> None:
        self.stages[stage.number] = stage
        count = 1 if stage.tasks == "single" else self.tasks
        partition = self._partition(stage)
        for task in range(count):
            relations = self._relations(stage, task)
            created = f"CREATE TEMP TABLE {_table(stage.number)} AS"
            head = created if task == 0 else f"INSERT INTO {_table(stage.number)}"
            prefix = f"WITH {', '.join(relations)} " if relations else ""
            self.connection.execute(
                f"{head} {prefix}SELECT *, {partition} AS p, {task} AS t FROM ({stage.sql})"
            )
        if stage.exchange.kind == "range":
            self._spread(stage)

    def _partition(self, stage: Stage) -> str:
        match stage.exchange.kind:
            case "hash":
                return stage.exchange.partition_sql(self.tasks)
            case "range":
                return f"({stage.exchange.sort_key})"
        return "0"

    def _spread(self, stage: Stage) -> None:
        """Replace sort keys by ranges: what a sample decides, here all rows do."""
        table = _table(stage.number)
        keys = self.connection.execute(f"SELECT p FROM {table} ORDER BY p").fetchall()
        bounds = (
            [keys[len(keys) * part // self.tasks][0] for part in range(1, self.tasks)]
            if keys
            else []
        )
        above = " + ".join(f"CAST(p >= {literal(bound)} AS INTEGER)" for bound in bounds) or "0"
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * REPLACE ({above} AS p) FROM {table}"
        )

    def _relations(self, stage: Stage, task: int) -> list[str]:
        relations = [self._scan(scan, task) for scan in stage.scans]
        return relations + [self._input(one, task) for one in stage.inputs]

    def _scan(self, scan: StageScan, task: int) -> str:
        path = (scan.table.catalog, scan.table.schema, scan.table.table)
        table, row_number = ".".join(map(identifier, path)), "rowid"
        if not scan.table.catalog:
            table = f"read_parquet({literal(scan.table.table)})"
            row_number = "file_row_number"
        columns = ", ".join(dict.fromkeys(identifier(c.name) for c in scan.columns)) or "NULL"
        where = ""
        if not scan.whole:
            row = self.connection.execute(f"SELECT max({row_number}) + 1 FROM {table}").fetchone()
            rows = (row and row[0]) or 0
            low, high = rows * task // self.tasks, rows * (task + 1) // self.tasks
            where = f" WHERE {row_number} >= {low} AND {row_number} < {high}"
        return f"{scan.name} AS NOT MATERIALIZED (SELECT {columns} FROM {table}{where})"

    def _input(self, one: StageInput, task: int) -> str:
        columns = ", ".join(f"c{index}" for index in range(len(one.types)))
        where = {"partition": f" WHERE p = {task}", "all": ""}.get(one.share, "")
        if one.share == "split":
            where = f" WHERE t % {self.tasks} = {task}"
        parts = (f"SELECT {columns} FROM {_table(number)}{where}" for number in one.stages)
        return f"{one.name} AS NOT MATERIALIZED ({' UNION ALL '.join(parts)})"


def _table(number: int) -> str:
    return f"temp.main.stage_{number}"


def ordered_equal(left: Sequence[object], right: Sequence[object]) -> bool:
    """Return whether rows are equal one by one, nan with nan."""
    return [repr(row) for row in left] == [repr(row) for row in right]

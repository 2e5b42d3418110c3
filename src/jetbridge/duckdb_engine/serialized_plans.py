"""DuckDB's optimised plans as JSON, and what DuckDB knows of queries and functions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import duckdb

from jetbridge.duckdb_engine.statements import execute, parsed
from jetbridge.errors import BadRequest
from jetbridge.runtime import cancellation

# Plans with these do not serialise, or depend on the rows that are there: statistics of one table
# become filters of another, and empty tables fold a query away.
_DISABLED = (
    "statistics_propagation,build_side_probe_side,compressed_materialization,"
    "join_filter_pushdown,row_group_pruner,late_materialization,column_lifetime,unused_columns,"
    "empty_result_pullup"
)
# Some plans serialise only without these: unnest() of a column in FROM, QUALIFY over lists, CTEs
# that read CTEs.
_SECOND_ATTEMPT = (
    "unnest_rewriter,window_self_join,sum_rewriter,top_n_window_elimination,cte_inlining"
)
# The settings of DuckDBs for plans, made once when they are opened: they apply to all connections.
PLAN_CONFIG: Mapping[str, str] = MappingProxyType({"disabled_optimizers": _DISABLED})
FALLBACK_CONFIG: Mapping[str, str] = MappingProxyType(
    {"disabled_optimizers": f"{_DISABLED},{_SECOND_ATTEMPT}"}
)
# Functions of the time, which DuckDB lists as if they were not.
_CLOCKS = frozenset(("localtime", "localtimestamp", "current_localtime", "current_localtimestamp"))
Columns = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class SerializedPlan:
    """Holds a plan as DuckDB wrote it; `problem` says why there is none."""

    tree: Any
    problem: str = ""


class PlanSerializer:
    """Asks a DuckDB of its own for plans, and a second one for those that the first cannot write.

    The first is opened with `PLAN_CONFIG`, `fallback` with `FALLBACK_CONFIG`; both may be locked.
    They must know the tables of a query, whose rows are not read.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        fallback: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self._connection = connection
        self._fallback = fallback
        self._volatile: frozenset[str] | None = None

    def plan(self, query: str) -> SerializedPlan:
        """Return the optimised plan of a query; raise what ends the statement."""
        plan = _plan(self._connection, query)
        if plan.problem and self._fallback is not None:
            return _plan(self._fallback, query)
        return plan

    def columns(self, query: str) -> Columns:
        """Return the names and types of the columns of a query.

        Raises BadRequest for a text that is not one query, and `duckdb.Error`.
        """
        parsed(self._connection, query)
        rows = execute(self._connection, f"DESCRIBE {query}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    def columns_or_problem(self, query: str) -> tuple[Columns, str]:
        """Return the columns of a query, or why it does not bind; raise what ends the statement."""
        try:
            return self.columns(query), ""
        except (duckdb.Error, UnicodeDecodeError, BadRequest) as error:
            _raise_interrupt(error)
            return (), _line(error)

    def volatile_functions(self) -> frozenset[str]:
        """Return the functions whose answer differs from call to call, or query to query."""
        if self._volatile is None:
            rows = execute(
                self._connection,
                "SELECT DISTINCT function_name FROM duckdb_functions() "
                "WHERE stability IS NOT NULL AND stability <> 'CONSISTENT' "
                # It has no answer that could differ.
                "AND function_name <> 'error'",
            ).fetchall()
            self._volatile = _CLOCKS.union(str(row[0]) for row in rows)
        return self._volatile


def _plan(connection: duckdb.DuckDBPyConnection, query: str) -> SerializedPlan:
    try:
        text = "SELECT json_serialize_plan(?, optimize := true)"
        row = execute(connection, text, parameters=[query]).fetchone()
    except (duckdb.Error, UnicodeDecodeError) as error:
        _raise_interrupt(error)
        return SerializedPlan(None, f"DuckDB does not write the plan: {_line(error)}")
    if row is None or not row[0]:
        return SerializedPlan(None, "a plan with a value that is not UTF-8")
    try:
        tree = json.loads(row[0], strict=False)
    except (ValueError, RecursionError):
        return SerializedPlan(None, "a plan that is not JSON")
    if tree.get("error"):
        cancellation.current().check()
        return SerializedPlan(None, f"DuckDB does not write the plan: {_line(tree)}")
    return SerializedPlan(tree)


def _raise_interrupt(error: Exception) -> None:
    """Raise what ends the statement: the error of its cancellation, or an interrupt."""
    cancellation.current().check()
    if isinstance(error, duckdb.InterruptException):
        raise error


def _line(error: Any) -> str:
    message = error.get("error_message") if isinstance(error, dict) else error
    return str(message).split("\n", 1)[0][:200]

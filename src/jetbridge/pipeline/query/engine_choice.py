"""Chooses the engine of a query, and says why."""

from collections.abc import Mapping
from dataclasses import dataclass

from jetbridge.catalog import CanRelateOnSpark, Prepare, Scan, SparkRelation, Table, supports
from jetbridge.catalog.identifiers import find_duplicate_name
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.name_resolution import Path, SearchPath
from jetbridge.pipeline.query.plan import Plan
from jetbridge.pipeline.query.run_on_spark import View
from jetbridge.pipeline.query.table_scans import TableScan, table_scans
from jetbridge.pipeline.settings import SettingValues
from jetbridge.pipeline.translate import Question, SparkTable, Untranslatable, translate

AUTO, DUCKDB, SPARK = "auto", "duckdb", "spark"
NO_SPARK = "Spark is not available: no catalog of this session uses it"


@dataclass(frozen=True)
class EngineChoice:
    """Hold the engine of a query and the reason for it.

    `sql` is the query in Spark SQL, if Spark runs it; `dialect` is that of the user's text.
    `views` create what the query reads and Spark cannot read by itself.
    """

    engine: str
    reason: str
    sql: str = ""
    dialect: str = DUCKDB
    views: tuple[View, ...] = ()


def choose_engine(
    connection: StatementConnection,
    plan: Plan,
    search_path: SearchPath,
    settings: SettingValues,
    *,
    has_spark: bool,
) -> EngineChoice:
    """Choose Spark for large tables, if it returns the same rows as DuckDB would.

    Raises FailedPrecondition if the setting `engine` is spark and Spark cannot run the query.
    """
    if settings.engine == DUCKDB:
        return EngineChoice(DUCKDB, "engine = duckdb")
    relations = _spark_relations(plan.sources) if has_spark else NO_SPARK
    if settings.engine != SPARK:
        reason = relations if isinstance(relations, str) else _too_small(relations, settings)
        if reason:
            return EngineChoice(DUCKDB, reason)
    try:
        if isinstance(relations, str):
            raise Untranslatable(relations)
        if find_duplicate_name(plan.schema.names) is not None:
            raise Untranslatable("two columns of one name")
        sql = translate(_question(plan, search_path, relations), connection)
    except Untranslatable as piece:
        if settings.engine == SPARK:
            raise FailedPrecondition(
                f"Spark cannot run this query with the same result as DuckDB: {piece}; "
                "use engine = auto or duckdb, or dialect = spark"
            ) from None
        return EngineChoice(DUCKDB, f"Spark may return other rows than DuckDB: {piece}")
    size = sum(relation.size for relation in relations.values())
    reason = "engine = spark" if settings.engine == SPARK else f"its tables have {size:,} bytes"
    return EngineChoice(SPARK, reason, sql, views=_views(connection, plan, relations))


def _views(
    connection: StatementConnection, plan: Plan, relations: Mapping[Path, SparkRelation]
) -> tuple[View, ...]:
    prepared = {path: relation.prepare for path, relation in relations.items() if relation.prepare}
    if not prepared:
        return ()
    scans = table_scans(connection, plan.query)
    whole_table = TableScan(())
    views = []
    for path, prepare in prepared.items():
        scan = scans.get(path, whole_table)
        columns = scan.columns if path in scans else None
        views.append(_prepare_view(prepare, Scan(columns, scan.filter)))
    return tuple(views)


def _prepare_view(prepare: Prepare, scan: Scan) -> View:
    return lambda session: prepare(session, scan)


def _spark_relations(sources: Mapping[Path, Table]) -> dict[Path, SparkRelation] | str:
    """Return how Spark reads each table, or the reason why it cannot."""
    relations = {}
    for path, table in sources.items():
        relation = table.spark_relation() if supports(table, CanRelateOnSpark) else None
        if relation is None:
            return f"Spark cannot read table {'.'.join(path)}"
        relations[path] = relation
    return relations


def _too_small(relations: Mapping[Path, SparkRelation], settings: SettingValues) -> str:
    """Return why the tables are too small for Spark; "" if they are not."""
    size = sum(relation.size for relation in relations.values())
    if size >= settings.spark_from:
        return ""
    return f"its tables have {size:,} bytes, and spark_from is {settings.spark_from:,}"


def _question(
    plan: Plan, search_path: SearchPath, relations: Mapping[Path, SparkRelation]
) -> Question:
    tables = {
        path: SparkTable(f"({relation.sql})", relation.types, relation.missing)
        for path, relation in relations.items()
    }
    return Question(plan.query, tuple(plan.schema.names), plan.types, tables, search_path)

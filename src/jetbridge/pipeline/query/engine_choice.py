"""Which engine runs a query, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from jetbridge.catalog import CanRelateOnSpark, Prepare, Scan, SparkRelation, Table, supports
from jetbridge.catalog.identifiers import find_duplicate_name
from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.name_resolution import Path, SearchPath
from jetbridge.pipeline.query.plan import Plan
from jetbridge.pipeline.query.run_on_spark import View
from jetbridge.pipeline.query.table_scans import TableScan, table_scans
from jetbridge.pipeline.settings import Settings
from jetbridge.pipeline.translate import Question, SparkTable, Untranslatable, translate

AUTO, DUCKDB, SPARK = "auto", "duckdb", "spark"
NO_SPARK = "Spark is not available: no catalog of this session uses it"


@dataclass(frozen=True)
class EngineChoice:
    """`sql` is the query in Spark SQL, if Spark runs it; `dialect` is that of the question.

    `views` make tables that Spark does not have by itself, for the time of a block.
    """

    engine: str
    reason: str
    sql: str = ""
    dialect: str = DUCKDB
    views: tuple[View, ...] = ()


def choose_engine(
    desk: StatementConnection, plan: Plan, place: SearchPath, settings: Settings, *, has_spark: bool
) -> EngineChoice:
    """`auto` takes Spark for large tables, where it gives just the rows that DuckDB would give.

    Raises FailedPrecondition if Spark is asked for and cannot do it.
    """
    if settings.engine == DUCKDB:
        return EngineChoice(DUCKDB, "asked for")
    found = _relations(plan.sources) if has_spark else NO_SPARK
    if settings.engine != SPARK:
        small = "" if isinstance(found, str) else _small(found, settings)
        if isinstance(found, str) or small:
            return EngineChoice(DUCKDB, found if isinstance(found, str) else small)
    try:
        if isinstance(found, str):
            raise Untranslatable(found)
        if find_duplicate_name(plan.schema.names) is not None:
            raise Untranslatable("two columns of one name")
        sql = translate(_question(plan, place, found), desk)
    except Untranslatable as piece:
        if settings.engine == SPARK:
            raise FailedPrecondition(
                f"Spark cannot run this query just as DuckDB: {piece}; "
                "use engine = auto or duckdb, or dialect = spark"
            ) from None
        return EngineChoice(DUCKDB, f"Spark would not give the same: {piece}")
    size = sum(relation.size for relation in found.values())
    asked = "asked for" if settings.engine == SPARK else f"its tables have {size:,} bytes"
    return EngineChoice(SPARK, asked, sql, views=_views(desk, plan, found))


def _views(
    desk: StatementConnection, plan: Plan, relations: Mapping[Path, SparkRelation]
) -> tuple[View, ...]:
    prepared = {path: each.prepare for path, each in relations.items() if each.prepare}
    if not prepared:
        return ()
    wanted = table_scans(desk, plan.query)
    everything = TableScan(())
    views = []
    for path, prepare in prepared.items():
        need = wanted.get(path, everything)
        scan = Scan(need.columns if path in wanted else None, need.filter)
        views.append(_prepared(prepare, scan))
    return tuple(views)


def _prepared(prepare: Prepare, scan: Scan) -> View:
    return lambda session: prepare(session, scan)


def _relations(sources: Mapping[Path, Table]) -> dict[Path, SparkRelation] | str:
    """How Spark reads each table, or which one it cannot."""
    found = {}
    for path, table in sources.items():
        relation = table.spark_relation() if supports(table, CanRelateOnSpark) else None
        if relation is None:
            return f"table {'.'.join(path)} is not one that Spark reads"
        found[path] = relation
    return found


def _small(relations: Mapping[Path, SparkRelation], settings: Settings) -> str:
    size = sum(relation.size for relation in relations.values())
    if size >= settings.spark_from:
        return ""
    return f"its tables have {size:,} bytes, and spark_from is {settings.spark_from:,}"


def _question(plan: Plan, place: SearchPath, relations: Mapping[Path, SparkRelation]) -> Question:
    tables = {
        path: SparkTable(f"({each.sql})", each.types, each.missing)
        for path, each in relations.items()
    }
    return Question(plan.query, tuple(plan.schema.names), plan.types, tables, place)

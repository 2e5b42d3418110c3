"""SHOW, DESCRIBE and EXPLAIN: what there is, and what a statement would do."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from jetbridge.catalog.columns import default_of
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.pipeline.commands.create_table_as import ddl, plan_table, resolve_table
from jetbridge.pipeline.commands.insert import plan_insert, resolve_insert
from jetbridge.pipeline.commands.query import engine_for, plan_query
from jetbridge.pipeline.name_resolution import NameResolver, Path
from jetbridge.pipeline.parsing.statements import (
    CreateTableAs,
    Describe,
    Explain,
    Insert,
    Query,
    Show,
)
from jetbridge.pipeline.query.engine_choice import SPARK, EngineChoice
from jetbridge.pipeline.query.plan import Plan
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.session import Session, StatementResult
from jetbridge.pipeline.settings import RULES

EXPLAIN = "EXPLAIN"
_TABLES = ("database", "schema", "name")
_COLUMNS = ("column_name", "column_type", "null")


def show(session: Session, statement: Show) -> StatementResult:
    match statement.what:
        case "tables":
            found = _tables(session, session.place.catalog)
            return _told(("name",), ((name,) for _, _, name in found))
        case "all tables":
            return _told(_TABLES, _tables(session))
        case "schemas":
            return _told(_TABLES[:2], _schemas(session))
        case "databases":
            return _told(("database_name",), ((name,) for name in sorted(session.catalogs)))
        case "settings" | "all":
            return _told(("name", "value", "description"), _settings(session))
        case name:
            return _told((name,), [(session.shown(name),)])


def _settings(session: Session) -> Iterable[tuple[str, str, str]]:
    about = {name: rule.about for name, rule in RULES.items()}
    about |= {name: setting.about for name, setting in session.means.settings.items()}
    for name, text in about.items():
        yield name, session.shown(name), text


def _schemas(session: Session) -> Iterable[tuple[str, str]]:
    places = session.places()
    for name in sorted(session.catalogs):
        for schema in places.catalog(name).list_schemas():
            yield name, schema.info().name


def _tables(session: Session, catalog: str | None = None) -> Iterable[tuple[str, str, str]]:
    """Of all catalogs, or those at the place where the session is."""
    places = session.places()
    _, here, _ = places.settled((session.place.catalog, session.place.schema, ""))
    for name in sorted(session.catalogs) if catalog is None else [catalog]:
        for schema in places.catalog(name).list_schemas():
            space = schema.info().name
            if catalog is None or space == here:
                for table in schema.list_tables():
                    yield name, space, table.info().name


def describe(session: Session, statement: Describe) -> StatementResult:
    """A table by its name, or the columns of a query."""
    name = statement.subject
    if isinstance(name, str):
        with session.desk(name) as desk:
            plan = plan_query(session, desk, name)
        return _told(_COLUMNS, _planned_columns(plan))
    info = session.places().table(session.places().path(name)).info()
    return _told(
        (*_COLUMNS, "default"),
        (
            (
                field.name,
                duckdb_type(field),
                "YES" if field.nullable else "NO",
                default_of(field),
            )
            for field in info.schema
        ),
    )


def _planned_columns(plan: Plan) -> Iterable[tuple[str, str, str]]:
    for field, kind in zip(plan.schema, plan.types, strict=True):
        yield field.name, kind, "YES" if field.nullable else "NO"


def explain(session: Session, statement: Explain) -> StatementResult:
    """Planned types, the engine and why, Spark SQL, and what would be created; nothing is run."""
    path, plan, choice = _plan_inner(session, statement.statement)
    lines = [*_about(plan, choice, session.places())]
    if path is not None and isinstance(statement.statement, CreateTableAs):
        lines.append(("target DDL", ddl(path, plan)))
    return replace(_told(("what", "text"), lines), report=Report(EXPLAIN, ".".join(path or ())))


def _plan_inner(
    session: Session, statement: Query | CreateTableAs | Insert
) -> tuple[Path | None, Plan, EngineChoice]:
    """Plan the statement as it would run; raise whatever it would be refused for."""
    match statement:
        case CreateTableAs():
            target = resolve_table(session, statement)
            with session.desk(statement.query) as desk:
                work = plan_table(session, desk, statement, target)
            return work.path, work.plan, work.choice
        case Insert():
            place = resolve_insert(session, statement)
            with session.desk(place.statement.query) as desk:
                insert = plan_insert(session, desk, place)
            return place.path, insert.plan, insert.choice
        case Query():
            with session.desk(statement.text) as desk:
                plan = plan_query(session, desk, statement.text)
                return None, plan, engine_for(session, desk, plan)


def _about(plan: Plan, choice: EngineChoice, places: NameResolver) -> Iterable[tuple[str, str]]:
    for name, kind, null in _planned_columns(plan):
        yield "column", f"{name} {kind}{' NOT NULL' if null == 'NO' else ''}"
    for path in sorted(map(places.settled, plan.sources)):
        yield "reads", ".".join(path)
    yield "engine", choice.engine
    yield "because", choice.reason
    if choice.engine == SPARK:
        yield "Spark SQL", choice.sql


def _told(names: tuple[str, ...], rows: Iterable[tuple[str | None, ...]]) -> StatementResult:
    schema = pa.schema([(name, pa.string()) for name in names])
    columns = list(zip(*rows, strict=True)) or [() for _ in names]
    batch = pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=schema)
    return StatementResult(schema=schema, batches=iter([batch]))

"""Runs SHOW, DESCRIBE and EXPLAIN: what the catalogs contain, and how a statement would run."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from jetbridge.catalog.values import default_of
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.pipeline.commands.create_table_as import plan_table, resolve_table, target_ddl
from jetbridge.pipeline.commands.insert import plan_insert, resolve_insert
from jetbridge.pipeline.commands.query import choose_query_engine, plan_query
from jetbridge.pipeline.context import StatementContext
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
from jetbridge.pipeline.report import Report, StatementResult

EXPLAIN = "EXPLAIN"
_TABLES = ("database", "schema", "name")
_COLUMNS = ("column_name", "column_type", "null")


def show(context: StatementContext, statement: Show) -> StatementResult:
    """Run SHOW."""
    names = context.names
    match statement.what:
        case "tables":
            tables = _tables_in_search_path(names)
            return _text_rows(("name",), ((name,) for _, _, name in tables))
        case "all tables":
            return _text_rows(_TABLES, _all_tables(names))
        case "schemas":
            return _text_rows(_TABLES[:2], _schemas(names))
        case "databases":
            return _text_rows(("database_name",), ((name,) for name in sorted(names.catalogs)))
        case "settings" | "all":
            return _text_rows(("name", "value", "description"), context.settings.rows())
        case setting:
            return _text_rows((setting,), [(context.settings.format_value(setting),)])


def _schemas(names: NameResolver) -> Iterable[tuple[str, str]]:
    for catalog in sorted(names.catalogs):
        for schema in names.catalog(catalog).list_schemas():
            yield catalog, schema.info().name


def _all_tables(names: NameResolver) -> Iterable[Path]:
    for catalog in sorted(names.catalogs):
        for schema in names.catalog(catalog).list_schemas():
            for table in schema.list_tables():
                yield catalog, schema.info().name, table.info().name


def _tables_in_search_path(names: NameResolver) -> Iterable[Path]:
    search_path = names.search_path
    catalog, searched, _ = names.resolve_path((search_path.catalog, search_path.schema, ""))
    for schema in names.catalog(catalog).list_schemas():
        if schema.info().name == searched:
            for table in schema.list_tables():
                yield catalog, searched, table.info().name


def describe(context: StatementContext, statement: Describe) -> StatementResult:
    """Run DESCRIBE of a table or of a query."""
    subject = statement.subject
    if isinstance(subject, str):
        with context.connect(subject) as connection:
            plan = plan_query(context, connection, subject)
        return _text_rows(_COLUMNS, _describe_columns(plan))
    schema = context.names.table(context.names.path(subject)).info().schema
    rows = ((field.name, duckdb_type(field), _null(field), default_of(field)) for field in schema)
    return _text_rows((*_COLUMNS, "default"), rows)


def _describe_columns(plan: Plan) -> Iterable[tuple[str, str, str]]:
    for field, data_type in zip(plan.schema, plan.types, strict=True):
        yield field.name, data_type, _null(field)


def _null(field: pa.Field) -> str:
    return "YES" if field.nullable else "NO"


def explain(context: StatementContext, statement: Explain) -> StatementResult:
    """Run EXPLAIN: types, engine and reason, Spark SQL, and the table that would be created."""
    path, plan, choice = _plan_statement(context, statement.statement)
    lines = [*_plan_lines(plan, choice, context.names)]
    if path is not None and isinstance(statement.statement, CreateTableAs):
        lines.append(("target DDL", target_ddl(path, plan)))
    report = Report(EXPLAIN, ".".join(path or ()))
    return replace(_text_rows(("what", "text"), lines), report=report)


def _plan_statement(
    context: StatementContext, statement: Query | CreateTableAs | Insert
) -> tuple[Path | None, Plan, EngineChoice]:
    """Plan the statement as it would run; raise what it would be refused for."""
    match statement:
        case CreateTableAs():
            target = resolve_table(context, statement)
            with context.connect(statement.query) as connection:
                job = plan_table(context, connection, statement, target)
            return job.path, job.plan, job.choice
        case Insert():
            insert_target = resolve_insert(context, statement)
            with context.connect(insert_target.statement.query) as connection:
                insert_job = plan_insert(context, connection, insert_target)
            return insert_target.path, insert_job.plan, insert_job.choice
        case Query():
            with context.connect(statement.text) as connection:
                plan = plan_query(context, connection, statement.text)
                return None, plan, choose_query_engine(context, connection, plan)


def _plan_lines(plan: Plan, choice: EngineChoice, names: NameResolver) -> Iterable[tuple[str, str]]:
    for name, data_type, null in _describe_columns(plan):
        yield "column", f"{name} {data_type}{' NOT NULL' if null == 'NO' else ''}"
    for path in sorted(map(names.resolve_path, plan.sources)):
        yield "reads", ".".join(path)
    yield "engine", choice.engine
    yield "because", choice.reason
    if choice.engine == SPARK:
        yield "Spark SQL", choice.sql


def _text_rows(names: tuple[str, ...], rows: Iterable[tuple[str | None, ...]]) -> StatementResult:
    """Return rows whose columns are all text."""
    schema = pa.schema([(name, pa.string()) for name in names])
    columns = list(zip(*rows, strict=True)) or [() for _ in names]
    batch = pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=schema)
    return StatementResult(schema=schema, batches=iter([batch]))

"""Renders DuckDB queries over the files of an Iceberg table."""

from collections.abc import Callable, Mapping, Sequence

from jetbridge.dialects.quoting import identifier, literal

# Columns that `iceberg_scan` offers besides those of the table.
ROW_ID = "_row_id"
UPDATED = "_last_updated_sequence_number"
# The row id for conditions. DuckDB 1.5 pushes a condition on one column down to the file, where the
# id of a row that a MERGE of Spark inserted is NULL. It evaluates conditions on two columns itself.
UNSKIPPED_ROW_ID = f"coalesce({ROW_ID}, {UPDATED})"
FILE = "filename"
POSITION = "file_row_number"
# The names of these columns in the result of `locate_rows`.
FOUND_UPDATED = "jetbridge_updated"
FOUND_FILE = "jetbridge_file"
FOUND_AT = "jetbridge_position"
# Their reserved field ids, for files that store them.
ROW_ID_FIELD = 2147483540
UPDATED_FIELD = 2147483539
ENTRY_COLUMNS = (
    "file_path",
    "file_format",
    "content",
    "record_count",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
    "file_size_in_bytes",
)

OverFiles = Callable[[Sequence[str]], str]


def table(location: str, snapshot_id: int | None) -> str:
    """Return a relation of the rows of a table, by a metadata file and an Iceberg snapshot."""
    version = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id:d}"
    return f"iceberg_scan({literal(location)}{version})"


def table_of_files(
    files: Sequence[tuple[str, str, int, int]],
    columns: Sequence[tuple[int, str, str, str | None]],
    deleted: str,
) -> str:
    """Return a relation of a table's rows, by its data files and a Parquet file of deleted
    positions.

    A file is its path, the location that the table knows, its first row id and sequence number. A
    column is its field id, name, type and default. The relation has the columns of `table`.
    """
    fields = [*columns, (ROW_ID_FIELD, "own_id", "BIGINT", None)]
    fields.append((UPDATED_FIELD, "own_updated", "BIGINT", None))
    schema = ", ".join(
        f"{number}: {{name: {literal(name)}, type: {literal(data_type)}, default_value: "
        f"CAST({literal(default)} AS VARCHAR)}}"
        for number, name, data_type, default in fields
    )
    listed = ", ".join(literal(path) for path, _, _, _ in files)
    values = ", ".join(
        f"({literal(path)}, {literal(location)}, {first:d}, {number:d})"
        for path, location, first, number in files
    )
    names = ", ".join(f"p.{identifier(name)}" for _, name, _, _ in columns)
    return (
        f"(SELECT {names}, coalesce(p.own_id, f.first_id + p.{POSITION}) AS {ROW_ID}, "
        f"coalesce(p.own_updated, f.number) AS {UPDATED}, f.location AS {FILE}, p.{POSITION} "
        f"FROM read_parquet([{listed}], {FILE} = true, {POSITION} = true, "
        f"schema = MAP {{{schema}}}) p "
        f"JOIN (VALUES {values}) f(path, location, first_id, number) ON p.{FILE} = f.path "
        f"ANTI JOIN read_parquet({literal(deleted)}) d "
        f"ON f.location = d.file AND p.{POSITION} = d.position) AS files"
    )


def in_files(files: Sequence[str], start: int = 0, end: int | None = None) -> str:
    """Return a condition for the rows of files; with `end`, for those in a range of positions."""
    named = f"{FILE} IN ({', '.join(literal(file) for file in files)})"
    if end is None:
        return named
    return f"{named} AND {POSITION} >= {start:d} AND {POSITION} < {end:d}"


def manifests(manifest_list: str) -> str:
    return f"SELECT * FROM read_avro({literal(manifest_list)})"


def manifest_entries(paths: Sequence[str]) -> str:
    """Return a query for the entries of manifests of format 3, with the columns `ENTRY_COLUMNS`."""
    listed = ", ".join(literal(path) for path in paths)
    picked = ", ".join(f"data_file.{name} AS {name}" for name in ENTRY_COLUMNS)
    counts = "data_file.value_counts"  # empty if the table keeps no counts: the result is NULL
    own = f"CASE WHEN cardinality({counts}) > 0 THEN map_contains({counts}, {ROW_ID_FIELD}) END"
    return (
        f"SELECT filename AS manifest, status, sequence_number, {own} AS own_row_ids, {picked} "
        f"FROM read_avro([{listed}], filename = true)"
    )


def formats_of_files(paths: Sequence[str]) -> str:
    """Return a query for the formats of the files in each manifest; reading all of it finds
    damage.
    """
    return (
        f"SELECT DISTINCT filename AS manifest, upper(data_file.file_format) AS file_format "
        f"FROM {_avro(paths, names=True)} WHERE status <> 2"
    )


def plan(source: str) -> str:
    return f"EXPLAIN SELECT * FROM {source}"


def select_all_rows(files: Sequence[str]) -> str:
    return f"SELECT * FROM {parquet(files)}"


def copy(source: str, columns: Sequence[tuple[str, str]]) -> str:
    """Return a relation like `table` over a copy; `columns` are expressions and names."""
    listed = ", ".join(f"{expression} AS {identifier(name)}" for expression, name in columns)
    return f"(SELECT {listed or '1 AS one'} FROM {source}) AS copied"


def as_type(expression: str, data_type: str) -> str:
    return f"CAST({expression} AS {data_type})"


def constant(value: str | None, data_type: str) -> str:
    return f"CAST({'NULL' if value is None else literal(value)} AS {data_type})"


def manifest_paths(lists: Sequence[str]) -> str:
    """Return a query for the manifests that manifest lists name."""
    return f"SELECT DISTINCT manifest_path FROM {_avro(lists)}"


def manifest_specs(lists: Sequence[str]) -> str:
    """Return a query for the partition specs of the manifests in manifest lists."""
    return f"SELECT DISTINCT partition_spec_id FROM {_avro(lists)}"


def live_files(manifests: Sequence[str]) -> str:
    """Return a query for the files of manifests, without entries of status 2 (removed files)."""
    return f"SELECT data_file.file_path FROM {_avro(manifests)} WHERE status <> 2"


def _avro(paths: Sequence[str], *, names: bool = False) -> str:
    listed = ", ".join(literal(path) for path in paths)
    return f"read_avro([{listed}]{', filename = true' if names else ''})"


def whole_manifest(path: str) -> str:
    return f"SELECT * FROM read_avro({literal(path)})"


def scan(
    source: str,
    columns: Sequence[tuple[str, str]],
    *,
    within: str = "",
    condition: str = "",
    filtered: Sequence[tuple[str, str]] = (),
    ordered: bool = False,
) -> str:
    """Select columns, given as names and expressions over the source; `ordered` sorts by row id.

    `condition` uses the names of `filtered`, which are expressions over the source. `within` is a
    condition over the source itself, as `in_files` returns it.
    """
    outputs = [f"jetbridge_{index}" for index in range(len(columns))]
    expressions = [
        f"{expression} AS {output}"
        for (_, expression), output in zip(columns, outputs, strict=True)
    ]
    expressions += [f"{expression} AS {identifier(name)}" for name, expression in filtered]
    expressions += [f"{ROW_ID} AS jetbridge_order"] if ordered else []
    order = " ORDER BY jetbridge_order" if ordered else ""
    listed = ", ".join(
        f"{output} AS {identifier(name)}"
        for (name, _), output in zip(columns, outputs, strict=True)
    )
    where = f" WHERE {condition}" if condition else ""
    inner = f"SELECT {', '.join(expressions) or '1 AS one'} FROM {source}"
    inner += f" WHERE {within}" if within else ""
    return f"SELECT {listed or '1 AS one'} FROM ({inner}) AS rows{where}{order}"


def keep_on_error(condition: str) -> str:
    """Return a condition that is true for rows where the given one fails."""
    return f"coalesce(TRY(coalesce(CAST(({condition}) AS BOOLEAN), FALSE)), TRUE)"


def parquet(files: Sequence[str]) -> str:
    """Return a relation of the rows of Parquet files."""
    return f"read_parquet([{', '.join(literal(file) for file in files)}])"


def with_types(source: str, types: Mapping[str, str]) -> str:
    """Select all columns, and cast those in `types`."""
    if not types:
        return f"SELECT * FROM {source}"
    casts = ", ".join(
        f"CAST({identifier(name)} AS {data_type}) AS {identifier(name)}"
        for name, data_type in types.items()
    )
    return f"SELECT * REPLACE ({casts}) FROM {source}"


def find_repeated_key(source: str, columns: Sequence[str]) -> str:
    """Return a query for a key that occurs twice; a key with NULL never does."""
    names = [f"k{index}" for index in range(len(columns))]
    inner = ", ".join(f"{c} AS {n}" for c, n in zip(columns, names, strict=True))
    listed, not_null = ", ".join(names), " AND ".join(f"{name} IS NOT NULL" for name in names)
    return (
        f"SELECT {listed} FROM (SELECT {inner} FROM {source}) WHERE {not_null} "
        f"GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    )


def find_clashing_key(new: str, existing: str, columns: Sequence[str], replaced: str | None) -> str:
    """Return a query for a key of `new` that `existing` has, too.

    Rows whose ids are in `replaced` do not count.
    """
    names = [f"k{index}" for index in range(len(columns))]
    inner = ", ".join(f"{c} AS {n}" for c, n in zip(columns, names, strict=True))
    listed = ", ".join(f"n.{name}" for name in names)
    equal = " AND ".join(f"n.{name} = t.{name}" for name in names)
    without = ""
    if replaced is not None:
        inner = f"{inner}, {ROW_ID}"
        ids = f"SELECT {ROW_ID} FROM {replaced} WHERE {ROW_ID} IS NOT NULL"
        without = f" WHERE t.{ROW_ID} NOT IN ({ids})"
    return (
        f"SELECT {listed} FROM (SELECT {inner} FROM {new}) n "
        f"JOIN (SELECT {inner} FROM {existing}) t ON {equal}{without} LIMIT 1"
    )


def of_new(name: str) -> str:
    """Return a column of the new values in `locate_rows`."""
    return f"n.{identifier(name)}"


def locate_rows(
    source: str,
    expressions: Sequence[tuple[str, str]],
    sought: str,
    files: Sequence[str] | None,
    row_id: str = ROW_ID,
    *,
    places: bool = True,
) -> str:
    """Select the rows whose ids are in the relation `sought`, with their files and positions.

    In `expressions`, only columns of `source` may be unqualified. Without `places`, for a table
    whose columns hide them, file and position are NULL.
    """
    selected = "".join(f"{expression} AS {identifier(name)}, " for name, expression in expressions)
    file, position = (FILE, POSITION) if places else ("NULL", "NULL")
    where = f"{UPDATED} AS {FOUND_UPDATED}, {file} AS {FOUND_FILE}, {position} AS {FOUND_AT}"
    within = f" WHERE {in_files(files)}" if files is not None else ""
    return (
        f"SELECT {selected}{ROW_ID} AS rowid, {where} FROM {source} "
        f"JOIN {identifier(sought)} n ON {row_id} = n.rowid{within}"
    )


def count_rows(source: str) -> str:
    return f"SELECT count(*) FROM {source}"


def no_rows(columns: Sequence[tuple[str, str]]) -> str:
    """Select no rows, with columns by name and type."""
    listed = ", ".join(
        f"CAST(NULL AS {data_type}) AS {identifier(name)}" for name, data_type in columns
    )
    return f"SELECT {listed} WHERE FALSE"

"""DuckDB queries over the files of an Iceberg table."""

from collections.abc import Callable, Mapping, Sequence

from jetbridge.dialects.quoting import identifier, literal

# Columns that `iceberg_scan` offers besides those of the table.
ROW_ID = "_row_id"
UPDATED = "_last_updated_sequence_number"
# The row id for conditions. DuckDB 1.5 hands a condition on one column to the file, and there the
# id of a row that was new in a MERGE of Spark is NULL. What needs two columns it judges itself.
UNSKIPPED_ROW_ID = f"coalesce({ROW_ID}, {UPDATED})"
FILE = "filename"
POSITION = "file_row_number"
# The names they have in the answer of `located`, beside columns of the table.
FOUND_UPDATED = "jetbridge_updated"
FOUND_FILE = "jetbridge_file"
FOUND_AT = "jetbridge_position"
# Their reserved field ids, for rows that carry them in the file.
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
    """The rows of a table as one metadata file tells them, at one snapshot."""
    version = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id:d}"
    return f"iceberg_scan({literal(location)}{version})"


def table_of_files(
    files: Sequence[tuple[str, str, int, int]],
    columns: Sequence[tuple[int, str, str, str | None]],
    deleted: str,
) -> str:
    """The rows of a table by its data files and a Parquet file with the deleted positions.

    Files come as path, the location that the table knows, first row id and sequence number;
    columns as field id, name, type and default. The answer has the columns that `table` offers.
    """
    fields = [*columns, (ROW_ID_FIELD, "own_id", "BIGINT", None)]
    fields.append((UPDATED_FIELD, "own_updated", "BIGINT", None))
    schema = ", ".join(
        f"{number}: {{name: {literal(name)}, type: {literal(kind)}, default_value: "
        f"CAST({literal(default)} AS VARCHAR)}}"
        for number, name, kind, default in fields
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
    """A condition for the rows of files; with `end`, at these positions of them."""
    named = f"{FILE} IN ({', '.join(literal(file) for file in files)})"
    if end is None:
        return named
    return f"{named} AND {POSITION} >= {start:d} AND {POSITION} < {end:d}"


def manifests(manifest_list: str) -> str:
    return f"SELECT * FROM read_avro({literal(manifest_list)})"


def manifest_entries(paths: Sequence[str]) -> str:
    """The entries of manifests of format 3, with the columns `ENTRY_COLUMNS`."""
    listed = ", ".join(literal(path) for path in paths)
    picked = ", ".join(f"data_file.{name} AS {name}" for name in ENTRY_COLUMNS)
    counts = "data_file.value_counts"  # a table may keep none: then nobody knows
    own = f"CASE WHEN cardinality({counts}) > 0 THEN map_contains({counts}, {ROW_ID_FIELD}) END"
    return (
        f"SELECT filename AS manifest, status, sequence_number, {own} AS own_row_ids, {picked} "
        f"FROM read_avro([{listed}], filename = true)"
    )


def formats_of_files(paths: Sequence[str]) -> str:
    """The formats of the files that each manifest lists; reading all of it finds damage, too."""
    return (
        f"SELECT DISTINCT filename AS manifest, upper(data_file.file_format) AS file_format "
        f"FROM {_avro(paths, names=True)} WHERE status <> 2"
    )


def plan(source: str) -> str:
    return f"EXPLAIN SELECT * FROM {source}"


def everything(files: Sequence[str]) -> str:
    return f"SELECT * FROM {parquet(files)}"


def copied(source: str, columns: Sequence[tuple[str, str]]) -> str:
    """A copy of a table as a relation like `table`: columns as expressions and names."""
    listed = ", ".join(f"{expression} AS {identifier(name)}" for expression, name in columns)
    return f"(SELECT {listed or '1 AS one'} FROM {source}) AS copied"


def as_type(expression: str, kind: str) -> str:
    return f"CAST({expression} AS {kind})"


def constant(value: str | None, kind: str) -> str:
    return f"CAST({'NULL' if value is None else literal(value)} AS {kind})"


def manifest_paths(lists: Sequence[str]) -> str:
    """The manifests that manifest lists name."""
    return f"SELECT DISTINCT manifest_path FROM {_avro(lists)}"


def manifest_specs(lists: Sequence[str]) -> str:
    """The partition specs of all manifests in manifest lists."""
    return f"SELECT DISTINCT partition_spec_id FROM {_avro(lists)}"


def live_files(manifests: Sequence[str]) -> str:
    """The files of manifests; an entry of status 2 only tells of one that was taken away."""
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
    """Columns by name, each an expression over the source; `ordered` by row id.

    The condition is about the names of `filtered`, expressions over the source as well; `within`
    is one about the source itself, as `in_files` makes it.
    """
    outputs = [f"jetbridge_{index}" for index in range(len(columns))]
    made = [f"{each[1]} AS {output}" for each, output in zip(columns, outputs, strict=True)]
    made += [f"{expression} AS {identifier(name)}" for name, expression in filtered]
    made += [f"{ROW_ID} AS jetbridge_order"] if ordered else []
    order = " ORDER BY jetbridge_order" if ordered else ""
    listed = ", ".join(
        f"{output} AS {identifier(each[0])}" for each, output in zip(columns, outputs, strict=True)
    )
    where = f" WHERE {condition}" if condition else ""
    inner = f"SELECT {', '.join(made) or '1 AS one'} FROM {source}"
    inner += f" WHERE {within}" if within else ""
    return f"SELECT {listed or '1 AS one'} FROM ({inner}) AS rows{where}{order}"


def kept_if_it_fails(condition: str) -> str:
    """A condition that is TRUE for the rows it cannot judge."""
    return f"coalesce(TRY(coalesce(CAST(({condition}) AS BOOLEAN), FALSE)), TRUE)"


def parquet(files: Sequence[str]) -> str:
    """The rows of data files that are not part of a table yet."""
    return f"read_parquet([{', '.join(literal(file) for file in files)}])"


def with_types(source: str, kinds: Mapping[str, str]) -> str:
    """All columns, those named as another type."""
    if not kinds:
        return f"SELECT * FROM {source}"
    casts = ", ".join(
        f"CAST({identifier(name)} AS {kind}) AS {identifier(name)}" for name, kind in kinds.items()
    )
    return f"SELECT * REPLACE ({casts}) FROM {source}"


def repeated_key(source: str, columns: Sequence[str]) -> str:
    """A key that a source has twice, if there is one; NULL is never the same."""
    names = [f"k{index}" for index in range(len(columns))]
    inner = ", ".join(f"{c} AS {n}" for c, n in zip(columns, names, strict=True))
    listed, there = ", ".join(names), " AND ".join(f"{name} IS NOT NULL" for name in names)
    return (
        f"SELECT {listed} FROM (SELECT {inner} FROM {source}) WHERE {there} "
        f"GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    )


def clashing_key(new: str, there: str, columns: Sequence[str], replaced: str | None) -> str:
    """A key of `new` that `there` has too; rows whose ids are in `replaced` do not count."""
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
        f"JOIN (SELECT {inner} FROM {there}) t ON {equal}{without} LIMIT 1"
    )


def of_new(name: str) -> str:
    """A column of the new values in `located`."""
    return f"n.{identifier(name)}"


def located(
    source: str,
    made: Sequence[tuple[str, str]],
    sought: str,
    files: Sequence[str] | None,
    row_id: str = ROW_ID,
    *,
    places: bool = True,
) -> str:
    """The rows of a source whose ids are in the relation `sought`, and where they are.

    Only the columns of `source` may stand in `made` without a qualifier. Without `places`, for a
    table whose own columns hide them, file and position are NULL.
    """
    picked = "".join(f"{expression} AS {identifier(name)}, " for name, expression in made)
    file, position = (FILE, POSITION) if places else ("NULL", "NULL")
    where = f"{UPDATED} AS {FOUND_UPDATED}, {file} AS {FOUND_FILE}, {position} AS {FOUND_AT}"
    within = f" WHERE {in_files(files)}" if files is not None else ""
    return (
        f"SELECT {picked}{ROW_ID} AS rowid, {where} FROM {source} "
        f"JOIN {identifier(sought)} n ON {row_id} = n.rowid{within}"
    )


def count(source: str) -> str:
    return f"SELECT count(*) FROM {source}"


def nothing(columns: Sequence[tuple[str, str]]) -> str:
    """No rows, with columns by name and type."""
    listed = ", ".join(f"CAST(NULL AS {kind}) AS {identifier(name)}" for name, kind in columns)
    return f"SELECT {listed} WHERE FALSE"

"""Column and constraint definitions, as CREATE TABLE and ALTER TABLE have them."""

from dataclasses import dataclass, field

from standins.tds.engine.errors import unknown
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.types import parse_type
from standins.tds.values import SqlType

OPTIONS = (
    "NOT", "NULL", "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "IDENTITY", "COLLATE",
    "DEFAULT", "FOREIGN", "ROWGUIDCOL", "WITH", "FOR", "ON",
)  # fmt: skip
TABLE_LEVEL = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "INDEX")


@dataclass
class ColumnSpec:
    name: str
    type: SqlType
    nullable: bool | None = None
    collation: str = ""
    identity: tuple[int, int] | None = None
    default: tuple[str, str] | None = None  # name and text
    with_values: bool = False


@dataclass
class ConstraintSpec:
    """`kind`: PK, UQ, CK, FK, DF or IX. `column` where it stands in a column's definition."""

    kind: str
    name: str = ""
    columns: list[str] = field(default_factory=list)
    descending: list[bool] = field(default_factory=list)
    clustered: bool = False
    columnstore: bool = False
    text: str = ""
    target: tuple[str, ...] = ()
    target_columns: list[str] = field(default_factory=list)
    column: str = ""
    with_values: bool = False


@dataclass
class TableSpec:
    columns: list[ColumnSpec] = field(default_factory=list)
    constraints: list[ConstraintSpec] = field(default_factory=list)


def parse_elements(inside: Tokens) -> TableSpec:
    spec = TableSpec()
    while not inside.done:
        if inside.peek() in TABLE_LEVEL and not _is_column(inside):
            spec.constraints.append(constraint(inside))
        else:
            column(inside, spec)
        if not inside.take(",") and not inside.done:
            inside.fail()
    return spec


def _is_column(tokens: Tokens) -> bool:
    token = tokens.token(1)
    return tokens.peek() == "INDEX" and token is None


def type_text(tokens: Tokens) -> str:
    parts = tokens.dotted()
    text = parts[-1]
    if text.lower() in ("double", "character") and tokens.peek() in ("PRECISION", "VARYING"):
        text += " " + tokens.next().text
    if tokens.peek() == "(":
        text += f"({tokens.inside().rest()})"
    return text


def column(tokens: Tokens, spec: TableSpec) -> ColumnSpec:
    name = tokens.name()
    if tokens.peek() == "AS":
        raise unknown("a computed column")
    made = ColumnSpec(name, parse_type(type_text(tokens), ordinal=len(spec.columns) + 1))
    spec.columns.append(made)
    while not tokens.done and tokens.peek() != ",":
        _option(tokens, made, spec)
    return made


def _option(tokens: Tokens, made: ColumnSpec, spec: TableSpec) -> None:
    if tokens.take("NOT", "NULL"):
        made.nullable = False
    elif tokens.take("NULL"):
        made.nullable = True
    elif not made.collation and tokens.take("COLLATE"):
        made.collation = tokens.name()
    elif tokens.take("IDENTITY"):
        made.identity = _identity(tokens)
    elif tokens.take("ROWGUIDCOL"):
        return
    else:
        _column_constraint(tokens, made, spec)


def _column_constraint(tokens: Tokens, made: ColumnSpec, spec: TableSpec) -> None:
    name = tokens.name() if tokens.take("CONSTRAINT") else ""
    if tokens.take("DEFAULT"):
        made.default = (name, default_text(tokens))
        made.with_values = tokens.take("WITH", "VALUES")
        return
    if tokens.peek() not in ("PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "FOREIGN"):
        tokens.fail()
    found = constraint(tokens, name, made.name)
    if not found.columns:
        found.columns = [made.name]
    found.column = made.name
    spec.constraints.append(found)


def _identity(tokens: Tokens) -> tuple[int, int]:
    if tokens.peek() != "(":
        return (1, 1)
    seed, step = (int(each.replace(" ", "")) for each in tokens.inside().parted())
    return (seed, step)


def default_text(tokens: Tokens) -> str:
    if tokens.take("NULL"):
        return "NULL"
    return tokens.until(",", *OPTIONS)


def constraint(tokens: Tokens, name: str = "", column_name: str = "") -> ConstraintSpec:
    if tokens.take("CONSTRAINT"):
        name = tokens.name()
    if tokens.take("PRIMARY", "KEY"):
        return _key(tokens, ConstraintSpec("PK", name, clustered=True))
    if tokens.take("UNIQUE"):
        return _key(tokens, ConstraintSpec("UQ", name))
    if tokens.take("CHECK"):
        return ConstraintSpec("CK", name, text=tokens.inside().rest())
    if tokens.take("DEFAULT"):
        return _default(tokens, name)
    if tokens.take("INDEX"):
        return _inline_index(tokens, tokens.name())
    tokens.take("FOREIGN", "KEY")
    return _foreign(tokens, ConstraintSpec("FK", name), column_name)


def _default(tokens: Tokens, name: str) -> ConstraintSpec:
    text = default_text(tokens)
    tokens.need("FOR")
    made = ConstraintSpec("DF", name, columns=[tokens.name()], text=text)
    made.with_values = tokens.take("WITH", "VALUES")
    return made


def _inline_index(tokens: Tokens, name: str) -> ConstraintSpec:
    made = ConstraintSpec("IX", name)
    made.clustered = tokens.take("CLUSTERED")
    if tokens.take("COLUMNSTORE"):
        made.columnstore = True
        return made
    tokens.take("NONCLUSTERED")
    return _key(tokens, made)


def _key(tokens: Tokens, made: ConstraintSpec) -> ConstraintSpec:
    if tokens.take("NONCLUSTERED"):
        made.clustered = False
    elif tokens.take("CLUSTERED"):
        made.clustered = True
    if tokens.peek() == "(":
        made.columns, made.descending = key_columns(tokens.inside())
    storage_options(tokens)
    return made


def storage_options(tokens: Tokens) -> None:
    """WITH (…) and ON a file group: places, which there are none of here."""
    if tokens.peek() == "WITH" and tokens.peek(1) == "(":
        tokens.next()
        tokens.inside()
    if tokens.take("ON"):
        tokens.name()
        if tokens.peek() == "(":
            tokens.inside()


def key_columns(inside: Tokens) -> tuple[list[str], list[bool]]:
    columns, descending = [], []
    while not inside.done:
        columns.append(inside.name())
        descending.append(inside.take("DESC"))
        inside.take("ASC")
        if not inside.take(",") and not inside.done:
            inside.fail()
    return columns, descending


def _foreign(tokens: Tokens, made: ConstraintSpec, column_name: str) -> ConstraintSpec:
    if tokens.peek() == "(":
        made.columns, _ = key_columns(tokens.inside())
    elif column_name:
        made.columns = [column_name]
    tokens.need("REFERENCES")
    made.target = tokens.dotted()
    if tokens.peek() == "(":
        made.target_columns, _ = key_columns(tokens.inside())
    while tokens.take("ON"):
        tokens.next()
        if not tokens.take("NO", "ACTION"):
            raise unknown("a foreign key that does more than refuse")
    return made

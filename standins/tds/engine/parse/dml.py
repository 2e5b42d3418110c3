"""INSERT, UPDATE, DELETE and MERGE taken apart; what is inside is sqlglot's to parse."""

from dataclasses import dataclass, field

from standins.tds.engine.errors import error, unknown
from standins.tds.engine.parse.hints import check_hints
from standins.tds.engine.parse.tokens import Tokens


@dataclass(frozen=True)
class Output:
    items: str
    into: tuple[str, ...] = ()
    into_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Insert:
    target: tuple[str, ...]
    hints: frozenset[str]
    columns: tuple[str, ...] | None
    output: Output | None
    values: Tokens | None = None  # what stands after VALUES
    query: str = ""
    execute: str = ""


@dataclass(frozen=True)
class Update:
    target: tuple[str, ...]
    hints: frozenset[str]
    items: tuple[tuple[str, str, str], ...]  # column, sign, expression
    output: Output | None
    sources: str
    where: str
    top: str


@dataclass(frozen=True)
class Delete:
    target: tuple[str, ...]
    hints: frozenset[str]
    output: Output | None
    sources: str
    where: str
    top: str


@dataclass(frozen=True)
class When:
    """`kind`: MATCHED, NOT MATCHED, or NOT MATCHED BY SOURCE; `action`: UPDATE, DELETE, INSERT."""

    kind: str
    condition: str
    action: str
    items: tuple[tuple[str, str, str], ...] = ()
    columns: tuple[str, ...] | None = None
    values: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Merge:
    target: tuple[str, ...]
    alias: str
    hints: frozenset[str]
    source: str
    condition: str
    whens: tuple[When, ...] = ()
    output: Output | None = None


@dataclass
class Parts:
    """Words that end a clause of UPDATE and DELETE."""

    ends: tuple[str, ...] = field(default=("OUTPUT", "FROM", "WHERE", "OPTION"))


def with_clause(tokens: Tokens) -> str:
    """The text of the common table expressions before the statement, which is left to read."""
    if tokens.peek() != "WITH":
        return ""
    return tokens.until("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE")


def hints(tokens: Tokens) -> frozenset[str]:
    if tokens.peek() != "WITH" or tokens.peek(1) != "(":
        return frozenset()
    tokens.need("WITH")
    inside = tokens.inside()
    return check_hints(hint.split("(")[0].strip().upper() for hint in inside.parted())


def names(tokens: Tokens) -> tuple[str, ...]:
    inside = tokens.inside()
    found = [inside.dotted()[-1]]
    while inside.take(","):
        found.append(inside.dotted()[-1])
    if not inside.done:
        inside.fail()
    return tuple(found)


def output(tokens: Tokens, *ends: str) -> Output | None:
    if not tokens.take("OUTPUT"):
        return None
    items = tokens.until("INTO", *ends)
    if not tokens.take("INTO"):
        return Output(items)
    if (token := tokens.token()) is not None and token.kind == "variable":
        raise unknown("OUTPUT INTO a table variable")
    into = tokens.dotted()
    columns = names(tokens) if tokens.peek() == "(" else ()
    return Output(items, into, columns)


def parse_insert(tokens: Tokens) -> Insert:
    tokens.need("INSERT")
    if tokens.peek() == "TOP":
        raise unknown("INSERT TOP")
    tokens.take("INTO")
    target = _target(tokens)
    given = hints(tokens)
    columns = names(tokens) if tokens.peek() == "(" and tokens.peek(1) != "SELECT" else None
    returned = output(tokens, "VALUES", "SELECT", "EXEC", "EXECUTE", "DEFAULT", "WITH", "(")
    if tokens.take("DEFAULT", "VALUES"):
        return Insert(target, given, columns, returned)
    if tokens.take("VALUES"):
        rest = Tokens(tokens.text, tokens.all[tokens.place :])
        return Insert(target, given, columns, returned, values=rest)
    if tokens.peek() in ("EXEC", "EXECUTE"):
        return Insert(target, given, columns, returned, execute=tokens.rest())
    if tokens.peek() in ("SELECT", "WITH", "("):
        return Insert(target, given, columns, returned, query=tokens.rest())
    tokens.fail()
    raise error(102, "INSERT")


def _target(tokens: Tokens) -> tuple[str, ...]:
    token = tokens.token()
    if token is not None and token.kind == "variable":
        raise unknown("a table variable")
    return tokens.dotted()


def _top(tokens: Tokens) -> str:
    if not tokens.take("TOP"):
        return ""
    inside = tokens.inside()
    return inside.rest()


def assignments(text: str) -> tuple[tuple[str, str, str], ...]:
    found = []
    for part in Tokens(text).parted():
        tokens = Tokens(part)
        token = tokens.token()
        if token is not None and token.kind == "variable":
            raise unknown("a variable in SET of UPDATE")
        column = tokens.dotted()[-1]
        sign = tokens.next().text
        if sign not in ("=", "+=", "-=", "*=", "/=", "%="):
            raise error(102, sign)
        found.append((column, sign, tokens.rest()))
    return tuple(found)


def parse_update(tokens: Tokens) -> Update:
    tokens.need("UPDATE")
    top = _top(tokens)
    target = _target(tokens)
    given = hints(tokens)
    tokens.need("SET")
    items = assignments(tokens.until(*Parts().ends))
    returned = output(tokens, "FROM", "WHERE", "OPTION")
    sources, where = _sources(tokens)
    return Update(target, given, items, returned, sources, where, top)


def parse_delete(tokens: Tokens) -> Delete:
    tokens.need("DELETE")
    top = _top(tokens)
    tokens.take("FROM")
    target = _target(tokens)
    given = hints(tokens)
    returned = output(tokens, "FROM", "WHERE", "OPTION")
    sources, where = _sources(tokens)
    return Delete(target, given, returned, sources, where, top)


def _sources(tokens: Tokens) -> tuple[str, str]:
    sources = tokens.until("WHERE", "OPTION") if tokens.take("FROM") else ""
    where = tokens.until("OPTION") if tokens.take("WHERE") else ""
    if tokens.take("OPTION"):
        tokens.inside()
    if not tokens.done:
        tokens.fail()
    return sources, where


def parse_merge(tokens: Tokens, ended: bool) -> Merge:
    tokens.need("MERGE")
    tokens.take("INTO")
    target = _target(tokens)
    given = hints(tokens)
    tokens.take("AS")
    alias = tokens.name() if tokens.peek() not in ("USING", "WITH") else target[-1]
    given |= hints(tokens)
    tokens.need("USING")
    source = tokens.until("ON")
    tokens.need("ON")
    condition = tokens.until("WHEN")
    whens = []
    while tokens.take("WHEN"):
        whens.append(_when(tokens))
    returned = output(tokens, "OPTION")
    if tokens.take("OPTION"):
        tokens.inside()
    if not ended:
        raise error(10713)
    if not whens or not tokens.done:
        tokens.fail()
    return Merge(target, alias, given, source, condition, tuple(whens), returned)


def _when(tokens: Tokens) -> When:
    kind = "MATCHED"
    if tokens.take("NOT"):
        tokens.need("MATCHED")
        kind = "NOT MATCHED"
        if tokens.take("BY", "SOURCE"):
            kind = "NOT MATCHED BY SOURCE"
        else:
            tokens.take("BY", "TARGET")
    else:
        tokens.need("MATCHED")
    condition = tokens.until("THEN") if tokens.take("AND") else ""
    tokens.need("THEN")
    return _action(tokens, kind, condition)


def _action(tokens: Tokens, kind: str, condition: str) -> When:
    if tokens.take("DELETE"):
        return When(kind, condition, "DELETE")
    if tokens.take("UPDATE"):
        tokens.need("SET")
        items = assignments(tokens.until("WHEN", "OUTPUT", "OPTION"))
        return When(kind, condition, "UPDATE", items)
    tokens.need("INSERT")
    columns = names(tokens) if tokens.peek() == "(" else None
    if tokens.take("DEFAULT", "VALUES"):
        return When(kind, condition, "INSERT", columns=columns)
    tokens.need("VALUES")
    values = tuple(tokens.inside().parted())
    return When(kind, condition, "INSERT", columns=columns, values=values)

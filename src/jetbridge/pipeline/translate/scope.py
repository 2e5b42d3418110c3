"""Where a name of a query is looked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.translate.bound import Column, Source, reference, set_type, type_of
from jetbridge.pipeline.translate.types import kind, struct_fields
from jetbridge.pipeline.translate.untranslatable import Untranslatable


@dataclass
class Scope:
    """The relations of one SELECT; `parent` is the query around it.

    `merged` are the columns of USING, which stand for one of each side. `star` is what * means.
    `outer` collects the relations of outer queries that were found.
    """

    parent: "Scope | None" = None
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, exp.Expr] = field(default_factory=dict)
    star: list[tuple[str | None, exp.Expr]] = field(default_factory=list)
    outer: set[str] = field(default_factory=set)

    def find(self, parts: Sequence[str]) -> exp.Expr | None:
        """What a name means in this query or in one around it."""
        found = self.own(parts)
        if found is None and self.parent is not None:
            self._sure(parts)
            found = self.parent.find(parts)
            if found is not None:
                self.outer |= {column.table for column in found.find_all(exp.Column)}
        return found

    def own(self, parts: Sequence[str]) -> exp.Expr | None:
        """In this query only; the longest name of a relation goes first, as in DuckDB."""
        for count in range(len(parts) - 1, -1, -1):
            found = self._column(parts[:count], parts[count])
            if found is not None:
                for name in parts[count + 1 :]:
                    found = _field(found, name)
                return found
        return None

    def _column(self, path: Sequence[str], name: str) -> exp.Expr | None:
        if not path and fold(name) in self.merged:
            return self.merged[fold(name)].copy()
        found = [
            (source, column)
            for source in self.called(path)
            for column in source.columns
            if column.name is not None and fold(column.name) == fold(name)
        ]
        if len(found) > 1:
            raise Untranslatable(f"the name {name}, which more than one table has")
        return use(*found[0]) if found else None

    def called(self, path: Sequence[str]) -> Iterator[Source]:
        """The relations that this may stand for; all of them, if nothing is said."""
        wanted = [fold(part) for part in path]
        for source in self.sources:
            own = [fold(part) for part in source.path]
            if not wanted or (own and own[-len(wanted) :] == wanted):
                yield source

    def _sure(self, parts: Sequence[str]) -> None:
        """A name that is not here must not be one that DuckDB made up for a column."""
        unnamed = any(column.name is None for each in self.sources for column in each.columns)
        if unnamed or fold(parts[-1]) == "rowid":
            raise Untranslatable(f"the name {'.'.join(parts)}")

    def add(self, source: Source) -> None:
        self.sources.append(source)
        self.star += [(column.name, _lazy(source, column)) for column in source.columns]


def use(source: Source, column: Column) -> exp.Expr:
    """A reference, unless Spark has not got the column."""
    if column.missing:
        raise Untranslatable(f"the column {column.name} of type {column.type}")
    return reference(source.alias, column.ident, column.type)


def _lazy(source: Source, column: Column) -> exp.Expr:
    """Part of a star; a missing column is refused only where it is asked for."""
    node = reference(source.alias, column.ident, column.type)
    node.meta["missing"] = column.missing
    return node


def _field(node: exp.Expr, name: str) -> exp.Expr:
    if kind(type_of(node)) != "STRUCT":
        raise Untranslatable(f"the name {name}")
    for field_name, duckdb_type in struct_fields(type_of(node)):
        if fold(field_name) == fold(name):
            inner = exp.Dot(this=node, expression=exp.to_identifier(field_name, quoted=True))
            return set_type(inner, duckdb_type)
    raise Untranslatable(f"the field {name}")

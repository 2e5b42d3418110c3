"""What names mean inside a query: its sources and their columns."""

from collections.abc import Callable
from dataclasses import dataclass, field

from standins.tds.engine.errors import error
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.storage.catalog import Table


@dataclass(frozen=True)
class Source:
    """One item of FROM. `columns` are expressions over `alias`, the name it has in DuckDB."""

    name: str
    alias: str
    columns: tuple[Expr, ...]
    table: Table | None = None
    path: tuple[str, ...] = ()  # schema and table, where it may be named so

    def find(self, name: str) -> list[Expr]:
        wanted = name.lower()
        return [each for each in self.columns if each.name.lower() == wanted]

    def is_called(self, parts: tuple[str, ...]) -> bool:
        if len(parts) == 1:
            return parts[0].lower() == self.name.lower()
        given = tuple(each.lower() for each in parts)
        known = tuple(each.lower() for each in self.path)
        return bool(known) and known[-len(given) :] == given


@dataclass
class Scope:
    """`groups` maps the SQL of what is grouped by to the SQL that stands for it afterwards."""

    sources: list[Source] = field(default_factory=list)
    parent: "Scope | None" = None
    groups: dict[str, str] = field(default_factory=dict)
    aggregating: bool = False
    outer: bool = False
    on_use: Callable[[Source, Expr], Expr] | None = None

    def column(self, parts: tuple[str, ...]) -> Expr:
        """A name with or without what it belongs to; looked for in the queries around, too."""
        found = self._here(parts)
        if found is not None:
            return found
        if self.parent is not None:
            return self.parent.column(parts)
        if len(parts) > 1:
            raise error(4104, ".".join(parts))
        raise error(207, parts[0])

    def _here(self, parts: tuple[str, ...]) -> Expr | None:
        qualifier, name = parts[:-1], parts[-1]
        matches: list[tuple[Source, Expr]] = []
        named = False
        for source in self.sources:
            if qualifier and not source.is_called(qualifier):
                continue
            named = True
            matches += [(source, each) for each in source.find(name)]
        if len(matches) > 1:
            raise error(209, name)
        if matches:
            source, expr = matches[0]
            return self.on_use(source, expr) if self.on_use else expr
        if qualifier and named:
            raise error(207, name)
        return None

    def starred(self, qualifier: tuple[str, ...]) -> list[Expr]:
        chosen = [each for each in self.sources if not qualifier or each.is_called(qualifier)]
        if qualifier and not chosen:
            raise error(4104, ".".join((*qualifier, "*")))
        found = [(source, expr) for source in chosen for expr in source.columns]
        if self.on_use:
            return [self.on_use(source, expr) for source, expr in found]
        return [expr for _, expr in found]

"""A server that runs statements of its clients, and the calls of one client."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetbridge.app.compose import build_application
from jetbridge.config import CatalogConfig, Config, Credentials, ServerConfig, SqlConfig
from jetbridge.config.model import Token
from tests.helpers.run_calls import run_sql
from tests.helpers.wire_calls import Answer, Wire, read_rows

# It may use `mema` only; `memb` belongs to somebody else.
OURS, THEIRS = "a" * 32, "b" * 32


@dataclass(frozen=True)
class Caller:
    """Call `run` over the wire, with the token of one tenant."""

    wire: Wire
    token: str
    catalog: str
    location: str = ""

    def run(self, text: str) -> Answer:
        return run_sql(self.wire, text, self.catalog, self.token)

    def reports(self, text: str) -> list[dict[str, Any]]:
        answer = self.run(text)
        assert answer.status == "OK", answer.message
        found: list[dict[str, Any]] = read_rows(answer).to_pylist()
        return found


@contextmanager
def serving(
    *folders: Path, catalogs: Mapping[str, CatalogConfig] | None = None
) -> Iterator[tuple[Caller, Caller]]:
    """Connect a client with `mema`, and one with `memb`, which has the table `memb.s.x`."""
    tokens = (
        Token("ours", OURS, frozenset({"mema", *(catalogs or ())})),
        Token("theirs", THEIRS, frozenset({"memb"})),
    )
    memory = {"mema": CatalogConfig("memory"), "memb": CatalogConfig("memory")}
    config = Config(
        server=ServerConfig(port=0),
        catalogs={**memory, **(catalogs or {})},
        sql=SqlConfig(folders=folders),
        credentials=Credentials(tokens=tokens),
    )
    app = build_application(config)
    app.server.start()
    try:
        with Wire(app.server.location) as wire:
            where = app.server.location
            ours = Caller(wire, OURS, "mema", where)
            theirs = Caller(wire, THEIRS, "memb", where)
            ours.reports("CREATE SCHEMA mema.s; CREATE TABLE mema.s.t AS SELECT 1 AS a, 'x' AS b")
            theirs.reports("CREATE SCHEMA memb.s; CREATE TABLE memb.s.x AS SELECT 42 AS secret")
            yield ours, theirs
    finally:
        app.close(1.0)

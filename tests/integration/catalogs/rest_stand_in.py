"""A REST catalog in this process, which counts what it is asked; its tables are made by PyIceberg.

It answers what reading needs: https://github.com/apache/iceberg/blob/main/open-api/
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    tables: Catalog
    asked: "Counter[str]"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parent = parse_qs(url.query).get("parent", [""])[0]
        path = [unquote(part) for part in url.path.split("/") if part]
        try:
            what, answer = _answer(self.server.tables, path, parent)
        except (NoSuchNamespaceError, NoSuchTableError) as error:
            self._send(404, {"error": {"message": str(error), "type": "NotFound", "code": 404}})
            return
        self.server.asked[what] += 1
        self._send(200, answer)

    def _send(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _answer(tables: Catalog, path: list[str], parent: str) -> tuple[str, Any]:
    match path:
        case ["v1", "config"]:
            return "config", {"defaults": {}, "overrides": {}}
        case ["v1", "namespaces"]:
            return "namespaces", {"namespaces": [] if parent else tables.list_namespaces()}
        case ["v1", "namespaces", space]:
            properties = tables.load_namespace_properties(space)
            return "properties", {"namespace": [space], "properties": properties}
        case ["v1", "namespaces", space, "tables"]:
            names = [{"namespace": [space], "name": name} for _, name in tables.list_tables(space)]
            return "tables", {"identifiers": names}
        case ["v1", "namespaces", space, "tables", name]:
            table = tables.load_table((space, name))
            metadata = json.loads(table.metadata.model_dump_json())
            location = table.metadata_location
            return "table", {"metadata-location": location, "metadata": metadata, "config": {}}
        case _:
            raise NoSuchTableError("/".join(path))


@contextmanager
def rest_stand_in(folder: Path) -> Iterator[tuple[str, Catalog, "Counter[str]"]]:
    """Provide the address, the catalog behind it, and the count of each kind of request."""
    tables = SqlCatalog(
        "behind", uri=f"sqlite:///{folder / 'behind.db'}", warehouse=str(folder / "warehouse")
    )
    server = _Server(("127.0.0.1", 0), _Handler)
    server.tables, server.asked = tables, Counter()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", tables, server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        tables.close()

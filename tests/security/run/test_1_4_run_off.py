"""With `clients = false` in `[sql]`, clients use the catalogs and run no SQL on the server."""

from jetbridge.app.compose import build_application
from jetbridge.client import connect
from jetbridge.config import CatalogConfig, Config, ServerConfig, SqlConfig
from tests.helpers.run_calls import run_sql
from tests.helpers.wire_calls import Wire


def test_run_is_not_offered_where_it_is_turned_off() -> None:
    catalogs = {"mem": CatalogConfig("memory")}
    config = Config(ServerConfig(port=0), catalogs=catalogs, sql=SqlConfig(clients=False))
    app = build_application(config)
    app.server.start()
    try:
        with Wire(app.server.location) as wire, connect(app.server.location, "mem") as client:
            assert run_sql(wire, "SELECT 1", "mem").status == "NOT_FOUND"
            client.create_schema("s")
            assert [schema.name for schema in client.list_schemas()] == ["s"]
    finally:
        app.close(1.0)

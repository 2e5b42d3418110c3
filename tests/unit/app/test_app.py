"""A configuration with SQL Server put together: no driver, no server, no Spark."""

import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from jetbridge.app.compose import Application, build_application, open_application
from jetbridge.backends.lake import backend as lake_backend
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.config import CatalogConfig, Config, ServerConfig
from jetbridge.config.model import Limits
from jetbridge.errors import FailedPrecondition
from jetbridge.spark import SparkEngine

BACKEND = "jetbridge.backends.mssql.catalog"
MSSQL = MssqlConfig(address=Address("db", "s"))


@dataclass(frozen=True)
class Options:
    spool: str
    shared: bool
    staged_bytes: int


class FakeMssql(MemoryCatalog):
    def __init__(self, name, address, *, settings, engine, options) -> None:
        super().__init__()
        self.asked = (name, address, settings, options)
        self.engine, self.closed = engine, 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def backend(monkeypatch):
    module = ModuleType(BACKEND)
    vars(module).update(MssqlCatalog=FakeMssql, SpoolOptions=Options)
    monkeypatch.setitem(sys.modules, BACKEND, module)


def app_of(**catalogs) -> Application:
    return build_application(Config(catalogs=catalogs, server=ServerConfig(port=0)))


def test_catalog_gets_what_the_configuration_says(backend):
    settings = MssqlSettings(ctas_text_type="VARCHAR")
    config = Config(
        server=ServerConfig(port=0),
        limits=Limits(spill_bytes=5, staged_bytes=6),
        catalogs={"m": MssqlConfig(address=Address("db", "s"), spool="/x", settings=settings)},
    )
    app = build_application(config)
    (catalog,) = app.catalogs.values()
    assert isinstance(catalog, FakeMssql)
    assert catalog.asked == ("m", Address("db", "s"), settings, Options("/x", False, 6))
    assert catalog.engine is app.engine
    app.close(0)


def test_spark_is_there_for_large_loads_and_not_started_before(backend, monkeypatch):
    started: list[SparkEngine] = []
    monkeypatch.setattr(SparkEngine, "start", started.append)
    app = app_of(m=MSSQL)
    app.start_background()
    assert app.engine is not None
    assert (app.engine.status(), started) == ("not started", [])
    app.close(0)


def test_what_has_something_to_close_is_closed_when_the_app_stops(backend):
    app = app_of(m=MSSQL, n=MSSQL, memory=CatalogConfig("memory"))
    app.close(0)
    assert [getattr(each, "closed", None) for each in app.catalogs.values()] == [1, 1, None]


def test_application_is_closed_when_its_block_fails(backend, monkeypatch):
    stopped: list[float] = []
    monkeypatch.setattr(SparkEngine, "stop", lambda _, seconds: stopped.append(seconds))
    config = Config(catalogs={"m": MSSQL})
    with pytest.raises(KeyboardInterrupt), open_application(config) as application:
        raise KeyboardInterrupt
    (catalog,) = application.catalogs.values()
    assert isinstance(catalog, FakeMssql)
    assert (catalog.closed, len(stopped)) == (1, 1)


def test_missing_driver_is_told_with_the_extra_that_brings_it(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("jetbridge.backends.mssql.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("mssql_python", "mssql_py_core"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FailedPrecondition, match="which is not installed") as refused:
        app_of(m=MSSQL)
    assert str(refused.value).startswith("catalog 'm' needs mssql_py")
    assert "pip install 'jetbridge[mssql]'" in str(refused.value)


def test_driver_that_cannot_be_loaded_is_told_with_the_reason(monkeypatch):
    class Broken:
        def find_spec(self, name, *_):
            if name == BACKEND:
                raise ImportError("libltdl.so.7: cannot open shared object file")

    monkeypatch.delitem(sys.modules, BACKEND, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(FailedPrecondition, match=r"libltdl\.so\.7.*run jetbridge doctor"):
        app_of(m=MSSQL)


def test_thread_that_opens_duckdb_is_waited_for_also_where_a_daemon_starts_it(monkeypatch):
    """`jetbridge sql` runs ATTACH in a daemon; a process that ends meanwhile was aborted."""
    daemons: list[bool] = []
    opened = threading.Event()

    class Reader:
        def __init__(self, folders: list[str]) -> None:
            pass

        def query(self, sql: str) -> None:
            daemons.append(threading.current_thread().daemon)
            opened.set()

    monkeypatch.setattr(lake_backend, "LakeReader", Reader)
    work = (Path("nowhere"),)
    threading.Thread(target=lake_backend.open_reader_early, args=work, daemon=True).start()
    assert opened.wait(10)
    assert daemons == [False]

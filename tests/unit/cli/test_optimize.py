import sys
import types
from datetime import timedelta
from functools import partial

import pytest

from jetbridge.catalog.identifiers import split_identifier
from jetbridge.cli import main, optimize
from jetbridge.errors import BadRequest, NotFound, Unavailable

ROWS = [("data files", 120, 2), ("bytes", 48_213, 9_001)]


class Spark:
    """Counts what is done to it."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def spark(monkeypatch):
    """No lake is opened; what would be asked of it is in `asked`."""
    spark = Spark()
    schema = types.SimpleNamespace(load_table=lambda _: None)
    close = partial(spark.calls.append, "close")
    lake = types.SimpleNamespace(lake="the lake", load_schema=lambda _: schema, close=close)
    monkeypatch.setattr(optimize, "open_lake", lambda *_, **__: (lake, spark))
    return spark


@pytest.fixture
def asked(monkeypatch, spark):
    calls: list = []

    def pretend(*arguments, progress):
        calls.append(arguments)
        progress("compacting")
        if isinstance(calls[0], Exception):
            raise calls[0]
        return ROWS

    module = types.ModuleType("jetbridge.backends.lake.maintenance.optimize")
    monkeypatch.setattr(module, "optimize", pretend, raising=False)
    monkeypatch.setattr(module, "OptimizeOptions", types.SimpleNamespace, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


def test_progress_goes_to_standard_error_and_the_table_to_standard_output(asked, spark, capsys):
    assert main(["optimize", "lake.shop.orders"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == ["starting Spark", "compacting"]
    assert said.out.splitlines() == [
        "            before  after",
        "data files     120      2",
        "bytes        48213   9001",
    ]
    assert spark.calls == ["start", "stop", "close"]


def test_flags_reach_the_work(asked):
    flags = ["--older-than", "12h", "--upgrade", "--partition-by", "day(ts)", "--sort-by", "id"]
    assert main(["optimize", 'LAKE.shop."a.b"', *flags]) == 0
    lake, schema, table, options = asked[0]
    assert (lake, schema, table) == ("the lake", "shop", "a.b")
    assert vars(options) == {
        "older_than": timedelta(hours=12),
        "upgrade": True,
        "partition_by": "day(ts)",
        "sort_by": "id",
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("table", "shop.orders"), 1),
        (Unavailable("Spark needs Java 17"), 1),
        (BadRequest("no column 'ts'"), 2),
    ],
)
def test_failure_is_one_line_and_spark_is_stopped(asked, spark, capsys, error, code):
    asked.append(error)
    assert main(["optimize", "lake.shop.orders"]) == code
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()[-1]) == ("", f"jetbridge: {error}")
    assert spark.calls == ["start", "stop", "close"]


def test_interrupted_work_is_no_traceback(asked, spark, capsys, monkeypatch):
    monkeypatch.setattr(spark, "start", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["optimize", "lake.shop.orders"]) == 130
    assert spark.calls == ["stop", "close"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["lake.orders"], "'lake.orders' is not the name of a table: it must be CATALOG.SCHEMA.T"),
        (["lake..orders"], "'lake..orders' is not the name of a table"),
        (['lake.s."t'], "is not the name of a table"),
        (["lak.shop.orders"], "there is no catalog 'lak'; known: lake, memory"),
        (["memory.shop.orders"], "catalog 'memory' is of type 'memory': only a lake can be"),
        (["lake.s.t", "--older-than", "7"], "--older-than = '7': must be a number and a unit: 7d"),
        (["lake.s.t", "--older-than", "-1d"], "expected one argument"),
        (["lake.s.t", "--config", "no-such.toml"], "no-such.toml: cannot be read"),
    ],
)
def test_wrong_usage_is_refused_before_spark_starts(asked, spark, capsys, arguments, problem):
    try:
        code = main(["optimize", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert problem in capsys.readouterr().err
    assert spark.calls == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", timedelta(days=7)),
        ("12h", timedelta(hours=12)),
        ("30m", timedelta(minutes=30)),
        ("0s", timedelta()),
    ],
)
def test_durations_are_a_number_and_a_unit(text, expected):
    assert optimize.duration(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b.c", ["a", "b", "c"]),
        ('a."b.c".d', ["a", "b.c", "d"]),
        ('a."say ""hi""".d', ["a", 'say "hi"', "d"]),
        ("a.b.c.d", ["a", "b", "c", "d"]),
        ("", []),
        ("a.", []),
        ('a"b"', []),
    ],
)
def test_names_are_read_as_in_sql(text, expected):
    assert split_identifier(text) == expected

from datetime import timedelta

import pytest

from jetbridge.app.compose import OptimizeRequest
from jetbridge.catalog.identifiers import split_identifier
from jetbridge.cli import main, optimize
from jetbridge.errors import BadRequest, NotFound, Unavailable

ROWS = [("data files", 120, 2), ("bytes", 48_213, 9_001)]


class Work:
    """Takes the place of Spark's work, and keeps what it was asked to do."""

    def __init__(self) -> None:
        self.requests: list[OptimizeRequest] = []
        self.error: BaseException | None = None

    def __call__(self, _, request, *, verbose, progress):
        self.requests.append(request)
        progress("compacting")
        if self.error is not None:
            raise self.error
        return ROWS


@pytest.fixture
def work(monkeypatch):
    work = Work()
    monkeypatch.setattr(optimize, "optimize_table", work)
    return work


def test_progress_goes_to_standard_error_and_the_table_to_standard_output(work, capsys):
    assert main(["optimize", "lake.shop.orders"]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["compacting"]
    assert printed.out.splitlines() == [
        "            before  after",
        "data files     120      2",
        "bytes        48213   9001",
    ]


def test_flags_reach_the_work(work):
    flags = ["--older-than", "12h", "--upgrade", "--partition-by", "day(ts)", "--sort-by", "id"]
    assert main(["optimize", 'LAKE.shop."a.b"', *flags]) == 0
    assert work.requests == [
        OptimizeRequest("lake", "shop", "a.b", timedelta(hours=12), True, "day(ts)", "id")
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("table", "shop.orders"), 1),
        (Unavailable("Spark needs Java 17"), 1),
        (BadRequest("no column 'ts'"), 2),
    ],
)
def test_failure_is_one_line(work, capsys, error, code):
    work.error = error
    assert main(["optimize", "lake.shop.orders"]) == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[-1]) == ("", f"jetbridge: {error}")


def test_interrupted_work_is_no_traceback(work):
    work.error = KeyboardInterrupt()
    assert main(["optimize", "lake.shop.orders"]) == 130


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
def test_wrong_usage_is_refused_before_spark_starts(work, capsys, arguments, problem):
    try:
        code = main(["optimize", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert problem in capsys.readouterr().err
    assert work.requests == []


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

import io
import logging
import sys

import pytest

from jetbridge.cli.terminal import LineFormatter, redact, set_up_logging
from jetbridge.service.call_context import new_trace_id

TOKEN = "s3cr3t-t0ken"


@pytest.fixture
def stream():
    logger = logging.getLogger("jetbridge")
    before = logger.handlers[:], logger.level, logger.propagate
    yield io.StringIO()
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Bearer {TOKEN}", "Bearer ***"),
        (f"authorization: bearer  {TOKEN}, next", "authorization: bearer  ***, next"),
        (f"(('authorization', 'Bearer {TOKEN}'),)", "(('authorization', 'Bearer ***'),)"),
        (f"{{'authorization': b'Bearer {TOKEN}'}}", "{'authorization': b'Bearer ***'}"),
        ("authorization: Basic YWxpY2U6czNjcjN0", "authorization: Basic ***"),
        (f"ATTACH 'm' (TYPE AIRPORT, AUTH_TOKEN '{TOKEN}')", "AUTH_TOKEN '***')"),
        (f"grpc://h:1/memory?auth_token={TOKEN}&x=1", "auth_token=***&x=1"),
        ("a bearer token is required", "a bearer token is required"),
        ("a basic question", "a basic question"),
    ],
)
def test_redaction_hides_the_token_and_nothing_else(text, expected):
    assert redact(text).endswith(expected)
    assert TOKEN not in redact(text)


def test_token_in_arguments_or_traceback_does_not_reach_the_log(stream):
    set_up_logging(stream=stream)
    log = logging.getLogger("jetbridge.test")
    try:
        raise ValueError(f"bad header Bearer {TOKEN}")
    except ValueError:
        log.exception("call with %s", {"authorization": f"Bearer {TOKEN}"})
    assert "ValueError" in stream.getvalue()
    assert TOKEN not in stream.getvalue()


def test_record_with_a_traceback_is_one_line(stream):
    set_up_logging(stream=stream)
    log = logging.getLogger("jetbridge.test")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("first\r\nsecond")
    assert len(stream.getvalue().splitlines()) == 1
    assert stream.getvalue().endswith("\n")


@pytest.mark.parametrize(("verbose", "expected"), [(False, ["info"]), (True, ["debug", "info"])])
def test_debug_records_appear_only_when_asked_for(stream, verbose, expected):
    set_up_logging(verbose=verbose, stream=stream)
    logging.getLogger("jetbridge.test").debug("debug")
    logging.getLogger("jetbridge.test").info("info")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == expected


def test_second_set_up_replaces_the_first(stream):
    set_up_logging(stream=io.StringIO())
    set_up_logging(stream=stream)
    logging.getLogger("jetbridge.test").info("once")
    handlers = logging.getLogger("jetbridge").handlers
    assert sum(isinstance(each.formatter, LineFormatter) for each in handlers) == 1


def test_log_goes_to_standard_error(stream):
    handler = set_up_logging()
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr


def test_trace_ids_are_short_and_differ():
    ids = {new_trace_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(each) == 16 and int(each, 16) >= 0 for each in ids)

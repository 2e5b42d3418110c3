import pytest

from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.dml import read_merge
from jetbridge.pipeline.parsing.tokens import TokenCursor

MERGE = "MERGE INTO t USING s USING (id) WHEN NOT MATCHED THEN ERROR"


@pytest.mark.parametrize("message", ["", "'no ' || s.id", "concat('WHEN ', s.id)"])
@pytest.mark.parametrize("after", ["", " WHEN MATCHED THEN DELETE", " RETURNING id"])
def test_message_of_error_is_one_expression(message, after):
    found = read_merge(TokenCursor(f"{MERGE} {message}{after}"))
    assert found.clauses[0].message == message
    assert len(found.clauses) == (2 if "WHEN MATCHED" in after else 1)
    assert found.returning == (("id",) if "RETURNING" in after else ())


def test_message_of_error_that_is_two_expressions_is_refused():
    with pytest.raises(BadRequest, match="not one expression"):
        read_merge(TokenCursor(f"{MERGE} 'a', 'b'"))

"""Names and statements of T-SQL."""

import pytest

from jetbridge.dialects.tsql import statements
from jetbridge.errors import BadRequest


def test_brackets_are_doubled():
    assert statements.path("dbo", "a]b[c") == "[dbo].[a]]b[c]"
    assert statements.bracket("select") == "[select]"
    assert statements.bracket("naïve 鴨") == "[naïve 鴨]"


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 129, "\U0001f986" * 65, "\ud800"])
def test_name_that_cannot_be_is_refused(name):
    with pytest.raises(BadRequest):
        statements.bracket(name)


def test_longest_name():
    assert len(statements.bracket("x" * 128)) == 130


def test_text_is_unicode_and_quoted():
    assert statements.text("it's") == "N'it''s'"


def test_statements():
    columns = [("id", "int", True), ("na]me", "nvarchar(max)", False)]
    assert statements.create_table("dbo", "t", columns) == (
        "CREATE TABLE [dbo].[t] ([id] int NOT NULL, [na]]me] nvarchar(max) NULL)"
    )
    assert statements.drop_table("dbo", "t") == "DROP TABLE [dbo].[t]"
    assert statements.rename_table("dbo", "o'x", "n") == (
        "EXEC sp_rename N'[dbo].[o''x]', N'n', N'OBJECT'"
    )

"""What leaves a block before its end."""

from standins.tds.values import SqlError


class Leave(Exception):
    """RETURN, BREAK or CONTINUE."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class BatchEnds(Exception):
    """The error has been decided on; nothing catches it any more."""

    def __init__(self, failure: SqlError) -> None:
        super().__init__(str(failure))
        self.failure = failure

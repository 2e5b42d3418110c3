"""The refusal of a query, or of a piece of it."""

from jetbridge.errors import NotSupported


class Untranslatable(NotSupported):
    """Spark is not proved to answer this the same; the piece is named in one short phrase."""

    def __init__(self, piece: str) -> None:
        super().__init__(piece)
        self.piece = piece

"""An engine that plays along with any recording: it knows the tables, and agrees to the rest."""

from collections.abc import Iterator, Sequence

from standins.tds.tests.recordings import Recording, tables
from standins.tds.tests.scripted import INT, ScriptedEngine, ScriptedSession, Table
from standins.tds.values import Answer, Column, Count, Parameter, Rows, SqlError

DATABASE = "tdsdb"
_ENDS = {"COMMIT": "commit", "ROLLBACK": "rollback", "BEGIN": "begin"}


class ReplayEngine(ScriptedEngine):
    def __init__(self, recording: Recording) -> None:
        made = {name: Table(*columns) for name, columns in tables(recording).items()}
        super().__init__(**made)
        self.calls: list[tuple[str, tuple[Parameter, ...]]] = []

    def login(self, user: str, password: str, database: str) -> ScriptedSession:
        """The recorded passwords are crossed out."""
        if user != "rec" or database not in ("", DATABASE):
            return super().login(user, "secret", database)
        self.sessions.append(ReplaySession(self, self.calls))
        return self.sessions[-1]


class ReplaySession(ScriptedSession):
    database = DATABASE

    def __init__(
        self, engine: ScriptedEngine, calls: list[tuple[str, tuple[Parameter, ...]]]
    ) -> None:
        super().__init__(engine)
        self._calls = calls

    def run(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Answer]:
        self._calls.append((text, tuple(parameters)))
        if text in self.engine.script:
            yield from self.engine.script[text](self, text, parameters)
            return
        if "sp_tablecollations_100" in text:
            yield from self._describe(text)
            return
        for statement in filter(None, map(str.strip, text.split(";"))):
            yield from self._play(statement, parameters)

    def _play(self, text: str, parameters: Sequence[Parameter]) -> Iterator[Answer]:
        word = text.split(maxsplit=1)[0].upper()
        if word in _ENDS and (word == "BEGIN") == (not self.transaction):
            yield getattr(self, _ENDS[word])()
            yield Count()
        elif word == "SELECT" and parameters:
            yield from self._select("", parameters)
        elif word == "SELECT":
            yield Rows((Column("", INT),), [(1,)])
        elif "dup" in text:
            raise SqlError(2627, "Violation of PRIMARY KEY constraint 'pk'.", 14)
        else:
            yield Count(1)

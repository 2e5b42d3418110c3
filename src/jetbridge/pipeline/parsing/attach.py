"""ATTACH, DETACH, CREATE SECRET and DROP SECRET; no message quotes a value, it may be a secret."""

from jetbridge.catalog import OnConflict
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.parsing.statements import (
    Attach,
    CreateSecret,
    Detach,
    DropSecret,
    Statement,
)
from jetbridge.pipeline.parsing.tokens import TokenCursor
from jetbridge.pipeline.secrets import default_name

_KEPT = "secrets are kept until the session ends, and nowhere else"


def attach(words: TokenCursor) -> Statement:
    words.expect("ATTACH")
    conflict = OnConflict.REPLACE if words.take("OR", "REPLACE") else OnConflict.ERROR
    words.take("DATABASE")
    if words.take("IF", "NOT", "EXISTS"):
        conflict = OnConflict.IGNORE
    place = words.string()
    if not words.take("AS"):
        raise BadRequest("ATTACH needs a name: ATTACH '...' AS name (TYPE lake)")
    alias = words.identifier()
    return Attach(place, alias, _options(words), conflict)


def detach(words: TokenCursor) -> Statement:
    words.expect("DETACH")
    words.take("DATABASE")
    if_exists = words.take("IF", "EXISTS")
    return Detach(words.identifier(), if_exists)


def is_create_secret(words: TokenCursor) -> bool:
    """Of what follows CREATE [OR REPLACE]; goes past the words that say so."""
    if words.take("PERSISTENT", "SECRET"):
        raise NotSupported(f"PERSISTENT is not supported: {_KEPT}")
    return words.take("SECRET") or words.take("TEMPORARY", "SECRET") or words.take("TEMP", "SECRET")


def create_secret(words: TokenCursor, on_conflict: OnConflict) -> Statement:
    """What follows SECRET."""
    if words.take("IF", "NOT", "EXISTS"):
        on_conflict = OnConflict.IGNORE
    name = "" if words.peek() == "(" else words.identifier()
    if words.take("IN"):
        raise NotSupported(f"IN is not supported: {_KEPT}")
    options = _options(words)
    return CreateSecret(name or default_name(options.get("type", "")), options, on_conflict)


def drop_secret(words: TokenCursor) -> Statement:
    """What follows DROP SECRET."""
    if_exists = words.take("IF", "EXISTS")
    name = words.identifier()
    if words.take("FROM"):
        raise NotSupported(f"FROM is not supported: {_KEPT}")
    words.end()
    return DropSecret(name, if_exists)


def _options(words: TokenCursor) -> dict[str, str]:
    """`(NAME value, ...)`; a name without a value means true."""
    found: dict[str, str] = {}
    if not words.take("("):
        words.end()
        return found
    more = not words.take(")")
    while more:
        name = words.identifier().lower()
        if name in found:
            raise BadRequest(f"the option {name.upper()} is there twice")
        found[name] = _value(words)
        more = words.take(",")
        if not more and not words.take(")"):
            raise BadRequest(f"the value of {name.upper()} must be one word, or stand in quotes")
    words.end()
    return found


def _value(words: TokenCursor) -> str:
    if words.peek() in (",", ")"):
        return "true"
    return words.string() if words.is_string() else words.identifier()

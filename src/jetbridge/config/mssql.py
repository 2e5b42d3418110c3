"""`[catalogs.NAME]` of type `mssql`: where the server is, who logs in, and its settings.

A password is in the environment, never in the file, and no message shows a connection string.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jetbridge.backends.mssql.connection.address import ENCRYPT, Address, address_of, parts
from jetbridge.backends.mssql.settings import SETTINGS, MssqlSettings
from jetbridge.config.model import ConfigError, MssqlConfig
from jetbridge.config.properties import FROM_ENVIRONMENT, variable
from jetbridge.config.rules import InvalidValue, Rule, checked, one_of, refuse_unknown, truth
from jetbridge.errors import BadRequest

PASSWORD = "password"  # noqa: S105 - the name of a key
CONNECTION = "connection"
_WORDS = {True: "true", False: "false"}


def _text(value: object, _: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue("must be a text in quotes")
    return value.strip()


def _spool(value: object, base: Path) -> str:
    """Relative ones start at the directory of the configuration file."""
    if not isinstance(value, str) or not value:
        raise InvalidValue("must be the path of a folder, in quotes")
    folder = (base / Path(value).expanduser()).absolute()
    if not folder.is_dir():
        raise InvalidValue(f"must be a folder that exists; there is none at {folder}")
    return str(folder)


_RULES: Mapping[str, Rule] = {
    "server": _text,
    "database": _text,
    "user": _text,
    "encrypt": one_of(*ENCRYPT),
    "trust_server_certificate": truth,
    "spool": _spool,
}
# Every key and its first value, None where there is none.
MSSQL_DEFAULTS: Mapping[str, object] = {
    "server": None,
    "database": None,
    "user": None,
    PASSWORD + FROM_ENVIRONMENT: None,
    "encrypt": Address.encrypt,
    "trust_server_certificate": Address.trust,
    CONNECTION: None,
    CONNECTION + FROM_ENVIRONMENT: None,
    "spool": None,
    **{name: each.default for name, each in SETTINGS.items()},
}
# Keys that a connection string says itself.
_SAID = ("server", "database", "user", "encrypt", "trust_server_certificate")


def load_mssql(source: str, key: str, given: Mapping[str, object], base: Path) -> MssqlConfig:
    if PASSWORD in given:
        problem = "does not belong into the file: put it into an environment variable, and name "
        raise ConfigError(source, f"{key}.{PASSWORD}", f'{problem}that: password_env = "NAME"')
    refuse_unknown(source, f"{key}.", given, ["type", *MSSQL_DEFAULTS])
    own = {name: value for name, value in given.items() if name in _RULES}
    values = checked(source, f"{key}.", own, _RULES, base)
    spool = values.pop("spool", "")
    address = _address(source, key, given, values)
    return MssqlConfig(address=address, spool=spool, settings=_settings(source, key, given))


def _address(
    source: str, key: str, given: Mapping[str, object], values: Mapping[str, Any]
) -> Address:
    found = _connection(source, key, given)
    if found is None:
        for name, example in (("server", '"HOST" or "HOST,PORT"'), ("database", '"NAME"')):
            if name not in values:
                problem = f"is missing: {name} = {example}, or connection = "
                raise ConfigError(source, f"{key}.{name}", f'{problem}"Server=...;Database=..."')
        said = {name: values[name] for name in ("server", "database", "user") if name in values}
        trust = values.get("trust_server_certificate", Address.trust)
        encrypt = values.get("encrypt", Address.encrypt)
        found = {**said, "encrypt": encrypt, "trust": _WORDS[trust]}
    name = PASSWORD + FROM_ENVIRONMENT
    if name in given:
        if found.get(PASSWORD):
            raise ConfigError(source, f"{key}.{name}", "is a second one: the connection has one")
        found[PASSWORD] = variable(source, f"{key}.{name}", given[name])
    return address_of(found)


def _connection(source: str, key: str, given: Mapping[str, object]) -> dict[str, str] | None:
    """The parts of the connection string; None where there is none."""
    names = [name for name in (CONNECTION, CONNECTION + FROM_ENVIRONMENT) if name in given]
    if not names:
        return None
    key_of = f"{key}.{names[0]}"
    others = [name for name in (*names[1:], *_SAID) if name in given]
    if others:
        problem = f"and {others[0]} say the same thing: keep one of them"
        raise ConfigError(source, key_of, problem)
    value = given[names[0]]
    text = value if names[0] == CONNECTION else variable(source, key_of, value)
    if not isinstance(text, str):
        raise ConfigError(source, key_of, "must be a text in quotes")
    try:
        found = parts(text)
        address_of(found)
    except BadRequest as error:
        raise ConfigError(source, key_of, f"cannot be read: {error}") from None
    if found.get(PASSWORD) and names[0] == CONNECTION:
        problem = "holds a password, which does not belong into the file: name an environment "
        remedy = 'variable that has it, password_env = "NAME", or one that has all, connection_env'
        raise ConfigError(source, key_of, problem + remedy)
    return found


def _settings(source: str, key: str, given: Mapping[str, object]) -> MssqlSettings:
    """TOML's own numbers and truth values will do, too."""
    settings = MssqlSettings()
    for name in SETTINGS:
        if name not in given:
            continue
        value = given[name]
        if not isinstance(value, str | int):
            problem = f"= {value!r}: must be a text, a whole number, true or false"
            raise ConfigError(source, f"{key}.{name}", problem)
        text = _WORDS[value] if isinstance(value, bool) else str(value)
        try:
            settings = settings.changed({name: text})
        except BadRequest as error:
            raise ConfigError(source, f"{key}.{name}", f"= {value!r}: {error}") from None
    return settings

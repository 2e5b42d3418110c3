"""Reads the files with secrets: tokens, the certificate and its key, the key of the seals.

A new key of the seals is kept beside the tables, so that tickets outlive a restart.
"""

import logging
import os
import re
import secrets
import ssl
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from jetbridge.config.model import Config, ConfigError, Credentials, ServerConfig, Token
from jetbridge.config.rules import InvalidValue
from jetbridge.errors import FailedPrecondition

log = logging.getLogger(__name__)

SEAL_KEY_BYTES = 32
_KEY_IN_DIGITS = re.compile(rb"(?:[0-9a-fA-F]{2}){32,}")


def load_credentials(source: str, config: Config) -> Credentials:
    """Return the contents of the secret files that a configuration names; raises ConfigError."""
    server = config.server
    tokens = load_tokens(server.tokens_file, config.catalogs) if server.tokens_file else ()
    tls = _load_tls(source, server)
    if server.seal_key_file:
        read_seal_keys(server.seal_key_file)
    for path in (server.tls_key, server.seal_key_file):
        if path:
            warn_if_open_to_others(path)
    return Credentials(tokens, tls)


def _load_tls(source: str, server: ServerConfig) -> tuple[bytes, bytes] | None:
    if server.tls_cert is None and server.tls_key is None:
        return None
    if server.tls_cert is None or server.tls_key is None:
        lone, other = ("tls_key", "tls_cert") if server.tls_key else ("tls_cert", "tls_key")
        raise ConfigError(source, f"server.{lone}", f"requires server.{other}")
    try:
        # ssl explains a bad pair, grpc does not. The password keeps ssl from asking the terminal.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server.tls_cert, server.tls_key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        problem = f"= {str(server.tls_cert)!r}: must be a PEM certificate that fits tls_key: "
        raise ConfigError(source, "server.tls_cert", f"{problem}{error}") from None
    return _read_bytes(server.tls_cert), _read_bytes(server.tls_key)


def read_seal_keys(path: Path) -> tuple[bytes, ...]:
    """Return the keys of a file, one in each line, as hexadecimal digits; raises ConfigError.

    The first key seals, and all of them open. A file that is no such text is one key, as it is.
    """
    data = _read_bytes(path)
    lines = data.split()
    if lines and all(_KEY_IN_DIGITS.fullmatch(line) for line in lines):
        return tuple(bytes.fromhex(line.decode()) for line in lines)
    if len(data) < SEAL_KEY_BYTES:
        problem = f"holds {len(data)} bytes; it must hold at least {SEAL_KEY_BYTES} random ones"
        raise ConfigError(str(path), "", problem)
    return (data,)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be read: {error.strerror or error}") from None


def warn_if_open_to_others(path: Path) -> None:
    """Log a warning if other users can read or change a file with secrets.

    The group may read a file of another user; otherwise this process could not.
    """
    status = path.stat()
    closed = stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH
    if status.st_uid == os.geteuid():
        closed |= stat.S_IRGRP
    if status.st_mode & closed:
        log.warning(
            "%s has secrets, and other users can read or change it: chmod 600 %s", path, path
        )


def load_tokens(path: Path, catalogs: Iterable[str]) -> tuple[Token, ...]:
    """Return the tokens of a file; raises ConfigError.

    A line is `name: token` or `name: token: catalog1,catalog2`, or a comment that begins with `#`.
    No error shows more of a line than the name: the rest may be secret.
    """
    warn_if_open_to_others(path)
    try:
        lines = _read_bytes(path).decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise ConfigError(str(path), "", "must be ASCII: other tokens abort the client") from None
    known = {name.lower(): name for name in catalogs}
    tokens: list[Token] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            tokens.append(_token(line, known, tokens))
        except InvalidValue as refused:
            raise ConfigError(str(path), f"line {number}", str(refused)) from None
    if not tokens:
        raise ConfigError(str(path), "", 'holds no token; write one "name: token" per line')
    return tuple(tokens)


def _token(line: str, known: Mapping[str, str], others: Iterable[Token]) -> Token:
    name, *rest = (part.strip() for part in line.split(":"))
    if not name or len(rest) not in (1, 2) or not rest[0]:
        raise InvalidValue('must be "name: token" or "name: token: catalog1,catalog2"')
    secret = rest[0]
    if not secret.isprintable() or " " in secret:
        raise InvalidValue(f"(token {name!r}): a token is printable ASCII without blanks")
    if any(name == other.name for other in others):
        raise InvalidValue(f"names token {name!r} a second time")
    if any(secret == other.secret for other in others):
        raise InvalidValue(f"(token {name!r}) repeats the token of another name")
    if len(rest) == 1:
        return Token(name, secret)
    allowed = [known.get(part.strip().lower()) for part in rest[1].split(",")]
    if None in allowed:
        raise InvalidValue(
            f"(token {name!r}): the third part must list catalogs of this server "
            f"({', '.join(known.values())}); a token itself must not contain ':'"
        )
    return Token(name, secret, frozenset(part for part in allowed if part))


KEPT = Path(".jetbridge", "seal.key")
_OWNER_ONLY = 0o600


def keep_seal_key(folder: Path) -> Path | None:
    """Return the file of the key in a folder, created if missing; None if that is not possible."""
    path = folder / KEPT
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _create(path)
        path.open("rb").close()
        warn_if_open_to_others(path)
    except OSError as error:
        log.warning(
            "%s cannot be used (%s): clients must attach again after a restart; "
            "name another file in server.seal_key_file",
            path,
            error.strerror or error,
        )
        return None
    return path


def reading(path: Path) -> Callable[[], Sequence[bytes]]:
    """Return a function that reads the keys again, or returns the latest if that fails."""
    try:
        known = read_seal_keys(path)
    except ConfigError as error:
        raise FailedPrecondition(f"{error}; if you remove it, a new one is created") from error

    def read() -> Sequence[bytes]:
        nonlocal known
        try:
            known = read_seal_keys(path)
        except ConfigError as error:
            log.warning("the previous keys are used: %s", error)
        return known

    return read


def _create(path: Path) -> None:
    """Write a new key in one step: servers that start together all read the first one's key."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(SEAL_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        log.debug("another server made %s first", path)
    finally:
        draft.unlink(missing_ok=True)

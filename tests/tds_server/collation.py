"""The collation of the server, and the code pages that collations bring with them."""

import codecs

# SQL_Latin1_General_CP1_CI_AS: locale 0x0409, its flags, sort order 0x34.
COLLATION = bytes.fromhex("0904d00034")
WIDE = "utf-16-le"
_LATIN = "cp1252"
_UTF8_FLAG = 0x04000000
_UNDEFINED = frozenset(b"\x81\x8d\x8f\x90\x9d")


def codec_of(collation: bytes) -> str:
    """Of `varchar`; what is not UTF-8 is taken for Latin 1, the page of the server's collation."""
    return "utf-8" if int.from_bytes(collation[:4], "little") & _UTF8_FLAG else _LATIN


def _like_windows(error: UnicodeError) -> tuple[str | bytes, int]:
    """Windows gives the five bytes without a meaning the control characters of their number.

    It writes a question mark for what a page does not have.
    """
    if isinstance(error, UnicodeDecodeError):
        return error.object[error.start : error.end].decode("latin-1"), error.end
    if isinstance(error, UnicodeEncodeError):
        wrong = error.object[error.start : error.end]
        return bytes(ord(c) if ord(c) in _UNDEFINED else 0x3F for c in wrong), error.end
    raise error


codecs.register_error("tds", _like_windows)


def decode(data: bytes, codec: str) -> str:
    """Half of a surrogate pair, which SQL Server stores like any other unit, becomes U+FFFD."""
    return data.decode(codec, "tds" if codec == _LATIN else "replace")


def encode(text: str, codec: str) -> bytes:
    return text.encode(codec, "tds" if codec == _LATIN else "replace")

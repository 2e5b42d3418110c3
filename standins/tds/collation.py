"""The collation of the server, and the code pages that collations bring with them."""

import codecs

# SQL_Latin1_General_CP1_CI_AS: locale 0x0409, its flags, sort order 0x34.
COLLATION = bytes.fromhex("0904d00034")
WIDE, UTF8 = "utf-16-le", "utf-8"
_LATIN = "cp1252"
_UTF8_FLAG = 0x04000000
_UNDEFINED = frozenset(b"\x81\x8d\x8f\x90\x9d")


LATIN_PAGE, UTF8_PAGE = 1252, 65001
# What names of collations have in them: the locale, the sort order, and the code page.
_KNOWN = {
    "CP850": (0x0409, 0x2A, 850),
    "CYRILLIC": (0x0419, 0, 1251),
    "": (0x0409, 0x34, LATIN_PAGE),
}


def _known(name: str) -> tuple[int, int, int]:
    return next(found for word, found in _KNOWN.items() if word in name.upper())


def page_of(name: str) -> int:
    """The code page of `varchar` with a collation of this name."""
    return UTF8_PAGE if "UTF8" in name.upper() else _known(name)[2]


def bytes_of(name: str) -> bytes:
    """A collation as the wire has it; without a name that of the server."""
    if not name:
        return COLLATION
    locale, order, page = _known(name)
    if page_of(name) == UTF8_PAGE:
        order, locale = 0, locale | _UTF8_FLAG
    flags = int.from_bytes(COLLATION[:4], "little") & ~0xFFFF
    return (locale | flags).to_bytes(4, "little") + bytes([order])


def codec_of(collation: bytes) -> str:
    """Of `varchar`: UTF-8, or the page of the sort order or the locale, Latin 1 if unknown."""
    number = int.from_bytes(collation[:4], "little")
    if number & _UTF8_FLAG:
        return UTF8
    for locale, order, page in _KNOWN.values():
        if (number & 0xFFFF, collation[4]) == (locale, order):
            return f"cp{page}"
    return _LATIN


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

"""PRELOGIN: who speaks, and whether they will speak in secret."""

import struct
from enum import IntEnum, StrEnum

from standins.tds.wire.packets import BadPacket

VERSION = bytes.fromhex("100003e80000")  # 16.0.1000: SQL Server 2022
_OPTION = struct.Struct(">BHH")
_END = 0xFF


class Option(IntEnum):
    VERSION = 0
    ENCRYPTION = 1
    INSTANCE = 2
    THREAD = 3
    MARS = 4
    TRACE = 5
    FEDERATED = 6


class Encryption(StrEnum):
    """What the server does: nothing, SQL Server's default, or `Force Encryption`."""

    NONE = "none"
    LOGIN = "login"
    REQUIRED = "required"


class Answer(IntEnum):
    """Only the login is encrypted; everything; nothing; everything, and you had better."""

    OFF = 0
    ON = 1
    NOT_SUPPORTED = 2
    REQUIRED = 3


# MS-TDS 2.2.6.5, by what the server does and what the client says.
_ANSWERS = {
    Encryption.NONE: dict.fromkeys(Answer, Answer.NOT_SUPPORTED),
    Encryption.LOGIN: {
        Answer.OFF: Answer.OFF,
        Answer.ON: Answer.ON,
        Answer.NOT_SUPPORTED: Answer.NOT_SUPPORTED,
        Answer.REQUIRED: Answer.ON,
    },
    Encryption.REQUIRED: {
        Answer.OFF: Answer.REQUIRED,
        Answer.ON: Answer.ON,
        Answer.NOT_SUPPORTED: Answer.REQUIRED,
        Answer.REQUIRED: Answer.ON,
    },
}


def parse(payload: bytes) -> dict[int, bytes]:
    """The options by number."""
    options: dict[int, bytes] = {}
    at = 0
    try:
        while payload[at] != _END:
            number, start, length = _OPTION.unpack_from(payload, at)
            options[number] = payload[start : start + length]
            at += _OPTION.size
    except (IndexError, struct.error) as cause:
        raise BadPacket("PRELOGIN ends too soon") from cause
    return options


def render(options: dict[int, bytes]) -> bytes:
    start = _OPTION.size * len(options) + 1
    head, body = bytearray(), bytearray()
    for number, value in options.items():
        head += _OPTION.pack(number, start + len(body), len(value))
        body += value
    return bytes(head) + bytes([_END]) + bytes(body)


def agree(server: Encryption, asked: dict[int, bytes]) -> Answer:
    said = asked.get(Option.ENCRYPTION, bytes([Answer.NOT_SUPPORTED]))
    if said[:1] not in [bytes([each]) for each in Answer]:
        raise BadPacket(f"nobody encrypts like {said!r}")
    return _ANSWERS[server][Answer(said[0])]


def answer(encryption: Answer) -> bytes:
    """Nothing about federated logins: unasked, it breaks Microsoft's ODBC driver."""
    return render(
        {
            Option.VERSION: VERSION,
            Option.ENCRYPTION: bytes([encryption]),
            Option.INSTANCE: b"\0",
            Option.THREAD: b"",
            Option.MARS: b"\0",
            Option.TRACE: b"",
        }
    )

"""Calls of procedures: those that run prepared text, and any other as an EXEC."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from standins.tds.values import Answer, Parameter, Session, SqlError, SqlType
from standins.tds.wire.encoding import tokens
from standins.tds.wire.encoding.reader import Reader, TooShort
from standins.tds.wire.encoding.tokens import Command, Token
from standins.tds.wire.encoding.wire_types import WireType, read_type
from standins.tds.wire.encoding.wire_values import read_value
from standins.tds.wire.requests import declarations

MOST_PARAMETERS = 2100
_BY_NUMBER = {
    10: "sp_executesql",
    11: "sp_prepare",
    12: "sp_execute",
    13: "sp_prepexec",
    15: "sp_unprepare",
}
_NUMBERED = 0xFFFF
_NEXT_CALL = (0x80, 0xFE, 0xFF)
_BY_REFERENCE, _DEFAULT = 0x01, 0x02
_INT = SqlType("int")


@dataclass(frozen=True)
class Argument:
    name: str
    type: SqlType
    value: Any
    output: bool
    default: bool


@dataclass(frozen=True)
class Call:
    procedure: str
    arguments: tuple[Argument, ...]


def parse(reader: Reader) -> Iterator[Call]:
    """All calls of one message."""
    while reader.left:
        yield _call(reader)


def _call(reader: Reader) -> Call:
    length = reader.u16()
    number = reader.u16() if length == _NUMBERED else None
    name = reader.wide(length) if number is None else _BY_NUMBER.get(number, f"#{number}")
    reader.u16()  # recompile, no metadata, reuse of metadata: hints
    arguments: list[Argument] = []
    while reader.left and reader.data[reader.at] not in _NEXT_CALL:
        arguments.append(_argument(reader, len(arguments) + 1))
    if reader.left:
        reader.u8()
    return Call(name, tuple(arguments))


def _argument(reader: Reader, ordinal: int) -> Argument:
    name, status = reader.short_text(), reader.u8()
    wire = read_type(reader)
    value = _value(wire, reader, ordinal, name)
    by_reference, default = bool(status & _BY_REFERENCE), bool(status & _DEFAULT)
    return Argument(name, wire.sql, value, by_reference, default)


def _value(wire: WireType, reader: Reader, ordinal: int, name: str) -> Any:
    try:
        return read_value(wire, reader)
    except TooShort:
        raise
    except (struct.error, ValueError, OverflowError) as cause:
        text = (
            "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is "
            f'incorrect. Parameter {ordinal} ("{name}"): The supplied value is not a valid '
            f"instance of data type {wire.sql.name}."
        )
        raise SqlError(8023, text) from cause


@dataclass(frozen=True)
class Prepared:
    text: str
    declared: tuple[declarations.Declared, ...]


@dataclass(frozen=True)
class Output:
    """A value that goes back to the caller."""

    ordinal: int
    parameter: Parameter


Run = Callable[[str, Sequence[Parameter]], Iterator[Answer]]
Inside = Callable[[Iterator[Answer], str], int]


class Procedures:
    """Those of one connection; it keeps what was prepared there.

    `run` gives the answers to a text, `inside` writes them and tells the number of an error.
    """

    def __init__(
        self, session: Session, run: Run, inside: Inside, write: Callable[[bytes], None]
    ) -> None:
        self._session, self._run, self._inside, self._write = session, run, inside, write
        self._prepared: dict[int, Prepared] = {}
        self._last_handle = 0
        self._known = {
            "sp_executesql": self._execute_text,
            "sp_prepare": self._prepare,
            "sp_execute": self._execute,
            "sp_prepexec": self._prepare_and_execute,
            "sp_unprepare": self._unprepare,
            "sp_describe_undeclared_parameters": self._describe,
            "sp_reset_connection": self._reset,
        }

    def forget(self) -> None:
        """The connection was reset: SQL Server drops what was prepared on it."""
        self._prepared.clear()

    def call(self, call: Call) -> None:
        """Writes everything up to the DONEPROC, which is for the caller to write."""
        if len(call.arguments) > MOST_PARAMETERS:
            text = (
                "The incoming request has too many parameters. The server supports a maximum of "
                f"{MOST_PARAMETERS} parameters. Reduce the number of parameters and resend the "
                "request."
            )
            raise SqlError(8003, text)
        if call.procedure.startswith("#"):
            raise SqlError(2812, f"Could not find stored procedure '{call.procedure}'.")
        plain = call.procedure.lower().removeprefix("sys.").strip("[]")
        self._known.get(plain, lambda arguments: self._other(call))(call.arguments)

    def _execute_text(self, arguments: tuple[Argument, ...]) -> None:
        text = _required(arguments, 0, "@statement")
        declared = declarations.parse(arguments[1].value or "") if len(arguments) > 1 else ()
        self._execute_prepared(Prepared(text, declared), arguments, 2, [])

    def _prepare(self, arguments: tuple[Argument, ...]) -> None:
        handle = self._keep(arguments)
        self._write(tokens.return_status(0))
        self._write_output(Output(0, Parameter(arguments[0].name, _INT, handle, True)), handle)

    def _prepare_and_execute(self, arguments: tuple[Argument, ...]) -> None:
        handle = self._keep(arguments)
        output = Output(0, Parameter(arguments[0].name, _INT, handle, True))
        self._execute_prepared(self._prepared[handle], arguments, 3, [output])

    def _execute(self, arguments: tuple[Argument, ...]) -> None:
        prepared = self._find(_required(arguments, 0, "@handle"))
        self._execute_prepared(prepared, arguments, 1, [])

    def _unprepare(self, arguments: tuple[Argument, ...]) -> None:
        handle = _required(arguments, 0, "@handle")
        self._find(handle)
        del self._prepared[handle]
        self._session.note(SqlError(0, "it went well, as @@ERROR then tells"))
        self._write(tokens.return_status(0))

    def _describe(self, arguments: tuple[Argument, ...]) -> None:
        found = self._session.describe_parameters(_required(arguments, 0, "@tsql"))
        self._write(tokens.return_status(self._inside(iter([found]), "")))

    def _reset(self, _arguments: tuple[Argument, ...]) -> None:
        self._session.reset()
        self.forget()
        self._write(tokens.return_status(0))

    def _other(self, call: Call) -> None:
        parameters = [
            Parameter(f"@P{i}", each.type, each.value, each.output)
            for i, each in enumerate(call.arguments, 1)
        ]
        text = f"EXEC {call.procedure} " + ", ".join(
            (f"{each.name} = " if each.name else "")
            + ("DEFAULT" if each.default else parameter.name)
            + (" OUTPUT" if each.output else "")
            for each, parameter in zip(call.arguments, parameters, strict=True)
        )
        outputs = [
            Output(i, Parameter(each.name, each.type, None, True))
            for i, each in enumerate(call.arguments)
            if each.output
        ]
        status = self._inside(self._run(text.rstrip(), parameters), text)
        self._write(tokens.return_status(status))
        values = self._session.outputs() if outputs else {}
        for output in outputs:
            self._write_output(output, values.get(f"@P{output.ordinal + 1}"))

    def _execute_prepared(
        self, prepared: Prepared, arguments: tuple[Argument, ...], first: int, outputs: list[Output]
    ) -> None:
        """The values follow the arguments that say what to run."""
        parameters = _bound(prepared, arguments[first:])
        status = self._inside(self._run(prepared.text, parameters), prepared.text)
        self._write(tokens.return_status(status))
        for output in outputs:
            self._write_output(output, output.parameter.value)
        found = self._session.outputs() if any(each.output for each in parameters) else {}
        for ordinal, parameter in enumerate(parameters, first):
            if parameter.output:
                self._write_output(Output(ordinal, parameter), found.get(parameter.name))

    def _write_output(self, output: Output, value: Any) -> None:
        self._write(tokens.return_value(output.ordinal, output.parameter, value))

    def _keep(self, arguments: tuple[Argument, ...]) -> int:
        """The former statement of a cursor goes when its handle is given for a new one."""
        self._prepared.pop(arguments[0].value, None)
        declared = declarations.parse(arguments[1].value or "")
        self._last_handle += 1
        text = _required(arguments, 2, "@stmt")
        self._prepared[self._last_handle] = Prepared(text, declared)
        return self._last_handle

    def _find(self, handle: int) -> Prepared:
        try:
            return self._prepared[handle]
        except KeyError:
            text = f"Could not find prepared statement with handle {handle}."
            raise SqlError(8179, text) from None


def _required(arguments: tuple[Argument, ...], index: int, name: str) -> Any:
    if len(arguments) <= index or arguments[index].value is None:
        text = f"Procedure expects parameter '{name}' of type 'ntext/nchar/nvarchar'."
        raise SqlError(214, text)
    return arguments[index].value


def _bound(prepared: Prepared, given: tuple[Argument, ...]) -> list[Parameter]:
    """By name where the caller gives names, else in order."""
    named = {each.name.lower(): each for each in given if each.name}
    unnamed = iter([each for each in given if not each.name])
    bound: list[Parameter] = []
    for each in prepared.declared:
        argument = named.pop(each.name.lower(), None) or next(unnamed, None)
        if argument is None:
            text = (
                f"The parameterized query '{prepared.text}' expects the parameter '{each.name}', "
                "which was not supplied."
            )
            raise SqlError(8178, text)
        output = each.output or argument.output
        bound.append(Parameter(each.name, each.type, argument.value, output))
    if named or next(unnamed, None) is not None:
        raise SqlError(8144, "Procedure or function has too many arguments specified.")
    return bound


def done(more: bool, failed: bool) -> bytes:
    status = (tokens.Done.MORE if more else 0) | (tokens.Done.ERROR if failed else 0)
    return tokens.done(status, None, Command.EXECUTE, Token.DONE_PROC)

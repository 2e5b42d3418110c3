"""Registers actions by name, and decodes their requests before they run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from jetbridge.errors import BadRequest, NotSupported
from jetbridge.service.call_context import CallContext
from jetbridge.service.flight_info import FlightInfoBuilder
from jetbridge.service.table_lookup import TableLookup, Transactions
from jetbridge.wire.codec import decode, decode_text, is_text
from jetbridge.wire.flight_pb2 import Action, ActionType, Empty, Result
from jetbridge.wire.limits import InputLimits

M = TypeVar("M", bound=msgspec.Struct)


@dataclass(frozen=True)
class ActionContext:
    """Hold what actions need besides their request and call."""

    flights: FlightInfoBuilder
    locator: TableLookup
    transactions: Transactions
    limits: InputLimits


Handler = Callable[[Any, CallContext, ActionContext], Iterator[bytes]]


@dataclass(frozen=True)
class Registered:
    """Describe an action.

    With `answers` it has exactly one result, otherwise none. With `text` its body may be JSON.
    """

    message: type[msgspec.Struct]
    handler: Handler
    description: str
    answers: bool
    text: bool


_ACTIONS: dict[str, Registered] = {}


def list_actions() -> Mapping[str, Registered]:
    """Return all actions by name."""
    return MappingProxyType(_ACTIONS)


def answers_once(name: str) -> bool:
    """Return whether the action exists and has exactly one result."""
    return name in _ACTIONS and _ACTIONS[name].answers


def action(
    name: str, message: type[M], *, answers: bool = True, text: bool = False
) -> Callable[[Callable[[M, CallContext, ActionContext], Iterator[bytes]]], Handler]:
    """Register a handler. ListActions shows its docstring as the description."""

    def register(handler: Callable[[M, CallContext, ActionContext], Iterator[bytes]]) -> Handler:
        if name in _ACTIONS:
            raise ValueError(f"action {name!r} is registered twice")
        description = (handler.__doc__ or "").strip()
        _ACTIONS[name] = Registered(message, handler, description, answers, text)
        return handler

    return register


# An action that the server's owner adds: from the body of a request to the bodies of its results.
OwnAction = Callable[[bytes], Iterable[bytes]]


@dataclass(frozen=True)
class DoAction:
    """Run the action that a request names, and list all actions."""

    services: ActionContext
    own: Mapping[str, OwnAction]

    def __call__(self, request: Action, call: CallContext) -> Iterator[Result]:
        registered = _ACTIONS.get(request.type)
        if registered is None:
            yield from self._own(request)
            return
        decoded = decode_text if registered.text and is_text(request.body) else decode
        message = decoded(registered.message, request.body, request.type, self.services.limits)
        for body in registered.handler(message, call, self.services):
            yield Result(body=body)

    def single(self, request: Action, call: CallContext) -> Result:
        """Run an action that `answers_once`, and return its result.

        The result is empty if an ALTER had nothing to do.
        """
        if not answers_once(request.type):
            raise BadRequest(
                f"the header airport-action-name names another action than {request.type[:100]!r}"
            )
        for result in self(request, call):
            return result
        return Result()

    def _own(self, request: Action) -> Iterator[Result]:
        if request.type not in self.own:
            raise NotSupported(
                f"action {request.type[:100]!r} does not exist; ListActions lists all actions"
            )
        for body in self.own[request.type](request.body):
            yield Result(body=body)

    def list_actions(self, request: Empty, call: CallContext) -> Iterator[ActionType]:
        """Yield the name and description of each action."""
        for name, registered in sorted(_ACTIONS.items()):
            yield ActionType(type=name, description=registered.description)
        for name, own in sorted(self.own.items()):
            yield ActionType(type=name, description=(own.__doc__ or "").strip())

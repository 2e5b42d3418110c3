"""Reads JSON strictly: a field that no decoder takes is an error, never ignored."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from jetbridge.distributed.types import NotDistributed

T = TypeVar("T")


class Fields:
    """Reads the fields of one JSON object, each once; `end` refuses those that are left."""

    def __init__(self, value: Any, title: str) -> None:
        if not isinstance(value, dict):
            raise NotDistributed(f"{title} that is no object")
        self._values = dict(value)
        self.title = title

    def take(self, name: str) -> Any:
        """Return a field that must be there."""
        try:
            return self._values.pop(name)
        except KeyError:
            raise NotDistributed(f"{self.title} without the field {name}") from None

    def take_or(self, name: str, default: Any) -> Any:
        """Return a field that may be missing."""
        return self._values.pop(name, default)

    def map(self, name: str, decode: Callable[[Any], T]) -> tuple[T, ...]:
        """Return the decoded elements of a list."""
        return tuple(map(decode, self.take(name) or ()))

    def drop(self, *names: str) -> None:
        """Leave out fields that mean nothing to a stage."""
        for name in names:
            self._values.pop(name, None)

    def expect(self, name: str, *values: Any) -> None:
        """Refuse a field with another value."""
        value = self._values.pop(name, None)
        if value not in values:
            text = f" {json.dumps(value)}" if isinstance(value, bool | int) else ""
            raise NotDistributed(f"{self.title} with {name}{text}")

    def end(self) -> None:
        """Refuse the fields that were not taken."""
        if self._values:
            raise NotDistributed(f"{self.title} with the field {min(self._values)}")

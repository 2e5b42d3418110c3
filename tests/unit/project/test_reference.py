"""The reference pages name what the code has."""

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from jetbridge import catalog
from jetbridge.service.do_action.registry import list_actions
from jetbridge.wire.messages import AlterTableRequest

REFERENCE = Path(__file__).resolve().parents[3] / "docs/reference"
ACTIONS = list_actions()


def sections() -> dict[str, str]:
    parts = re.split(r"^### `(\w+)`$", (REFERENCE / "actions.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_action_has_a_section_and_no_other_has() -> None:
    assert set(sections()) == set(ACTIONS)


@pytest.mark.parametrize("name", ACTIONS)
def test_every_field_of_an_action_is_named(name: str) -> None:
    common = {f.name for f in fields(AlterTableRequest)}
    message = ACTIONS[name].message
    own = [
        f
        for f in fields(message)
        if not (issubclass(message, AlterTableRequest) and f.name in common)
    ]
    unnamed = [f.name for f in own if f"`{f.name}`" not in sections()[name]]
    assert unnamed == []


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_says_what_it_does(name: str) -> None:
    assert ACTIONS[name].description.endswith((".", ";"))


def test_every_capability_is_described() -> None:
    page = (REFERENCE / "capabilities.md").read_text()
    capabilities = [name for name in catalog.__all__ if name.startswith("Can")]
    assert [name for name in capabilities if f"`{name}`" not in page] == []

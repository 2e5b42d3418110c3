"""The table of backends, and what each of them says about itself."""

import pytest

from jetbridge.app.configuration import BACKENDS


@pytest.mark.parametrize("kind", list(BACKENDS))
def test_backend_is_listed_under_its_type(kind):
    assert BACKENDS[kind].kind == kind


@pytest.mark.parametrize("kind", list(BACKENDS))
def test_backend_with_an_extra_names_its_packages(kind):
    backend = BACKENDS[kind]
    assert bool(backend.extra) == bool(backend.packages)


@pytest.mark.parametrize("kind", list(BACKENDS))
def test_settings_of_a_backend_are_keys_with_the_same_defaults(kind):
    backend = BACKENDS[kind]
    defaults = {name: setting.default for name, setting in backend.settings.items()}
    assert {name: backend.keys[name] for name in defaults} == defaults
    assert backend.ignored_settings.isdisjoint(backend.settings)


def test_types_of_backends_are_those_of_the_documents():
    assert list(BACKENDS) == ["lake", "memory", "mssql"]
    assert {kind: backend.uses_spark for kind, backend in BACKENDS.items()} == {
        "lake": "for writes",
        "memory": "never",
        "mssql": "for large loads",
    }

"""Opens the catalogs of ATTACH, and reads secrets, with the backend of their type."""

from collections.abc import Mapping

from jetbridge.app.backends import BACKENDS
from jetbridge.app.compose import open_catalog
from jetbridge.catalog import Catalog
from jetbridge.catalog.backend import AttachRequest, SharedResources
from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.statements import Attach
from jetbridge.pipeline.secrets import FindSecret

# The type of a location that no backend is sure to recognize: the path of a folder.
DEFAULT_KIND = "lake"


def config_for_attach(statement: Attach, find_secret: FindSecret) -> tuple[str, object]:
    """Return the type and the configuration of the catalog of an ATTACH; raises BadRequest."""
    options, location = statement.options, statement.location
    recognitions = {kind: backend.recognizes(location) for kind, backend in BACKENDS.items()}
    certain = (kind for kind, recognition in recognitions.items() if recognition == "yes")
    kind = options["type"].lower() if "type" in options else next(certain, DEFAULT_KIND)
    if kind not in BACKENDS:
        raise BadRequest(f"TYPE {kind} is not one of {', '.join(BACKENDS)}")
    others = (name for name, recognition in recognitions.items() if recognition != "no")
    request = AttachRequest(
        statement.alias,
        location,
        options,
        find_secret(options.get("secret"), kind),
        tuple(other for other in others if other != kind),
    )
    return kind, BACKENDS[kind].config_for_attach(request)


def open_attached(
    statement: Attach, find_secret: FindSecret, resources: SharedResources
) -> Catalog:
    """Open the catalog of an ATTACH; raises BadRequest, FailedPrecondition or Unavailable."""
    kind, config = config_for_attach(statement, find_secret)
    return open_catalog(statement.alias, kind, config, resources)


def parse_secret(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a secret says; raises BadRequest, which shows no value.

    If no type with this name takes secrets, one that does raises the error.
    """
    kind = options.get("type", "").lower()
    parsers = {name: backend.parse_secret for name, backend in BACKENDS.items()}
    parse = parsers.get(kind) or next(parse for parse in parsers.values() if parse)
    return parse(options)

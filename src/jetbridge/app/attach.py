"""Opens catalogs of ATTACH, and reads secrets, with the backend of their type."""

from collections.abc import Mapping

from jetbridge.app.backends import BACKENDS
from jetbridge.app.compose import open_catalog
from jetbridge.catalog import Catalog
from jetbridge.catalog.backend import AttachRequest, SharedResources
from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.statements import Attach
from jetbridge.pipeline.secrets import FindSecret

# The type of a location that no backend is sure to recognize: the path of a folder.
DEFAULT_TYPE = "lake"


def config_for_attach(statement: Attach, find_secret: FindSecret) -> tuple[str, object]:
    """Return the type and the configuration of the catalog of an ATTACH; raises BadRequest."""
    options, location = statement.options, statement.location
    recognitions = {
        catalog_type: backend.recognizes(location) for catalog_type, backend in BACKENDS.items()
    }
    certain = (
        catalog_type for catalog_type, recognition in recognitions.items() if recognition == "yes"
    )
    catalog_type = options["type"].lower() if "type" in options else next(certain, DEFAULT_TYPE)
    if catalog_type not in BACKENDS:
        raise BadRequest(f"TYPE {catalog_type} is not one of {', '.join(BACKENDS)}")
    others = (name for name, recognition in recognitions.items() if recognition != "no")
    request = AttachRequest(
        statement.alias,
        location,
        options,
        find_secret(options.get("secret"), catalog_type),
        tuple(other for other in others if other != catalog_type),
    )
    return catalog_type, BACKENDS[catalog_type].config_for_attach(request)


def open_for_attach(
    statement: Attach, find_secret: FindSecret, resources: SharedResources
) -> Catalog:
    """Open the catalog of an ATTACH; raises BadRequest, FailedPrecondition or Unavailable."""
    catalog_type, config = config_for_attach(statement, find_secret)
    return open_catalog(statement.alias, catalog_type, config, resources)


def parse_secret(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the content of a secret; raises BadRequest, which shows no value.

    If no backend of this type has secrets, the error comes from one that has.
    """
    secret_type = options.get("type", "").lower()
    parsers = {name: backend.parse_secret for name, backend in BACKENDS.items()}
    parse = parsers.get(secret_type) or next(parse for parse in parsers.values() if parse)
    return parse(options)

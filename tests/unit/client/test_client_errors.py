import grpc
import msgpack
import pytest
from grpc import StatusCode

from jetbridge import errors
from jetbridge.client.errors import BY_STATUS, translate

LOCATION = "grpc://127.0.0.1:1"


class FakeError(grpc.RpcError):
    def __init__(self, code, details="no", trailers=()):
        self._code, self._details, self._trailers = code, details, trailers

    def code(self):
        return self._code

    def details(self):
        return self._details

    def trailing_metadata(self):
        return self._trailers


def with_details(code, exception_type):
    details = msgpack.packb({"exception_type": exception_type, "message": "no"})
    return FakeError(code, trailers=(("grpc-status-details-bin", details),))


def all_errors(error_class=errors.ServerError):
    yield error_class
    for subclass in error_class.__subclasses__():
        yield from all_errors(subclass)


def test_every_status_the_server_sends_has_its_class():
    sent = {StatusCode[error_class.status] for error_class in all_errors()} - {StatusCode.INTERNAL}
    assert sent == set(BY_STATUS)


@pytest.mark.parametrize("code", BY_STATUS, ids=lambda code: code.name)
def test_error_comes_back_as_the_class_it_was(code):
    error = translate(FakeError(code, "schema 's' is gone"), LOCATION)
    assert type(error) is BY_STATUS[code]
    assert (str(error), error.status) == ("schema 's' is gone", code.name)


@pytest.mark.parametrize("code", [StatusCode.INTERNAL, StatusCode.DATA_LOSS, StatusCode.UNKNOWN])
def test_status_without_a_class_is_kept(code):
    error = translate(FakeError(code), LOCATION)
    assert type(error) is errors.ServerError
    assert error.status == code.name


def test_status_stands_in_for_an_empty_message():
    assert str(translate(FakeError(StatusCode.CANCELLED, ""), LOCATION)) == "CANCELLED"


@pytest.mark.parametrize(
    ("code", "exception_type", "expected"),
    [
        (StatusCode.INVALID_ARGUMENT, "ConstraintException", errors.ConstraintViolation),
        (StatusCode.ALREADY_EXISTS, "ConstraintException", errors.DuplicateKey),
        (StatusCode.INVALID_ARGUMENT, "InvalidInputException", errors.BadRequest),
        (StatusCode.ABORTED, "ConstraintException", errors.Conflict),
    ],
)
def test_details_tell_a_constraint_from_a_bad_request(code, exception_type, expected):
    assert type(translate(with_details(code, exception_type), LOCATION)) is expected


@pytest.mark.parametrize("details", [b"\xc1", b"", b"\x01", b"\x91\x01"])
def test_details_of_another_form_are_ignored(details):
    broken = FakeError(
        StatusCode.INVALID_ARGUMENT, trailers=(("grpc-status-details-bin", details),)
    )
    assert type(translate(broken, LOCATION)) is errors.BadRequest


def test_unreachable_server_is_named_with_a_hint():
    refused = FakeError(StatusCode.UNAVAILABLE, "failed to connect to all addresses")
    error = translate(refused, LOCATION)
    assert isinstance(error, errors.Unavailable)
    assert LOCATION in str(error)
    assert "jetbridge serve" in str(error)

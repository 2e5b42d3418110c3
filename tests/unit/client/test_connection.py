import pytest

from jetbridge.client import connect
from jetbridge.client.connection import Location, path_header
from jetbridge.client.session import named_descriptor, pack
from jetbridge.errors import Unavailable
from jetbridge.wire.codec import Blob, decode
from jetbridge.wire.flight_pb2 import FlightDescriptor
from jetbridge.wire.messages import EndpointsRequest, ScanParameters
from jetbridge.wire.tickets import DescriptorName, TicketSealer


@pytest.mark.parametrize(
    ("uri", "target", "tls"),
    [
        ("grpc://localhost:8815", "localhost:8815", False),
        ("grpc+tcp://h:1/", "h:1", False),
        ("grpc+tls://[::1]:8815", "[::1]:8815", True),
    ],
)
def test_location_gives_the_address_and_tells_tls(uri, target, tls):
    location = Location.parse(uri)
    assert (location.target, location.tls) == (target, tls)


@pytest.mark.parametrize("uri", ["localhost:8815", "http://h:1", "grpc://", "grpc://h:1/cat", ""])
def test_other_location_is_refused(uri):
    with pytest.raises(ValueError, match="must be grpc://"):
        connect(uri, "cat")


@pytest.mark.parametrize(("catalog", "token"), [("catalogé", None), ("cat", "a\nb")])
def test_what_no_header_can_carry_is_refused(catalog, token):
    with pytest.raises(ValueError, match="printable ASCII"):
        connect("grpc://h:1", catalog, token)


def test_closed_client_says_so():
    client = connect("grpc://127.0.0.1:1", "cat")
    client.close()
    client.close()
    with pytest.raises(Unavailable, match="closed"):
        client.catalog_version()


@pytest.mark.parametrize("name", ["t", "two words", "100%41", "é☃", "a/b", "new\nline", '"'])
def test_server_reads_every_name_out_of_a_descriptor(name):
    descriptor = named_descriptor("s", name)
    assert TicketSealer(lambda: [b"key"]).open_descriptor("cat", descriptor) == DescriptorName(
        "s", name
    )
    ((key, value),) = path_header(descriptor.SerializeToString())
    assert key == "airport-flight-path"
    assert value.isascii()
    assert value.isprintable()


def test_command_descriptor_has_no_path_header():
    command = FlightDescriptor(type=FlightDescriptor.CMD, cmd=b"x")
    assert path_header(command.SerializeToString()) == ()


def test_binary_is_packed_as_text_as_msgpack_c_does():
    request = EndpointsRequest(
        descriptor=Blob(b"\x08\x01\xff"), parameters=ScanParameters(column_ids=[2**64 - 1])
    )
    packed = pack(request)
    assert b"\xa3\x08\x01\xff" in packed
    assert decode(EndpointsRequest, packed, "endpoints") == request

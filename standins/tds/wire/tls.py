"""TLS as TDS 7 has it: the handshake travels inside PRELOGIN packets, what follows does not."""

import functools
import ssl
import subprocess
import tempfile
from pathlib import Path

from standins.tds.wire.link import Link, Tls
from standins.tds.wire.packets import DEFAULT_SIZE, Kind, Unpacker, cut


@functools.cache
def server_context() -> ssl.SSLContext:
    """With a certificate of its own making, one per process, as SQL Server has without a given one.

    SQL Server speaks TLS 1.3 in TDS 8 only; after a handshake of 1.3 there would be tickets to
    send in the midst of a login that alone is encrypted.
    """
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key", "-out", "cert"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        context.load_cert_chain(Path(folder, "cert"), Path(folder, "key"))
    return context


def shake_hands(link: Link) -> Tls | None:
    """None where the client went away or does not like what it sees."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    cipher = server_context().wrap_bio(incoming, outgoing, server_side=True)
    unpacker = Unpacker()
    while True:
        try:
            cipher.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            return None
        else:
            _send(link, outgoing.read())
            return Tls(cipher, incoming, outgoing)
        _send(link, outgoing.read())
        data = link.receive_raw()
        if not data:
            return None
        for each in unpacker.feed(data):
            incoming.write(each.payload)


def _send(link: Link, data: bytes) -> None:
    if data:
        link.send_raw(b"".join(cut(Kind.PRELOGIN, data, DEFAULT_SIZE)))

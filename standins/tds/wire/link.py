"""The bytes of one socket, in the clear or through TLS."""

import contextlib
import socket
import ssl
import struct
import threading

from standins.tds.faults import Drop

_CHUNK = 256 * 1024
_NO_LINGER = struct.pack("ii", 1, 0)


class Link:
    """One thread reads, another one writes; the object that ciphers takes one at a time."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._tls: Tls | None = None

    def receive(self) -> bytes:
        """Some bytes; none at the end, whatever brought it about."""
        while True:
            data = self.receive_raw()
            if self._tls is None or not data:
                return data
            data = self._tls.decrypt(data)
            if data:
                return data

    def send(self, data: bytes) -> None:
        self.send_raw(data if self._tls is None else self._tls.encrypt(data))

    def receive_raw(self) -> bytes:
        try:
            return self._socket.recv(_CHUNK)
        except OSError:
            return b""

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def start_tls(self, tls: "Tls") -> None:
        self._tls = tls

    def stop_tls(self) -> None:
        """Only the login was encrypted: the rest of the connection is plain."""
        self._tls = None

    def wake_reader(self) -> None:
        """A thread in `receive` gets its end; the peer does not notice."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def shut(self) -> None:
        """Whoever reads or writes here, on either side, comes to an end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, how: Drop = Drop.FIN) -> None:
        if how is Drop.RESET:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        else:
            self.shut()  # bytes that nobody read would make a reset of it
        self._socket.close()


class Tls:
    """A finished handshake, and what it ciphers with."""

    def __init__(self, cipher: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO):
        self._cipher, self._incoming, self._outgoing = cipher, incoming, outgoing
        self._lock = threading.Lock()

    def decrypt(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        with self._lock:
            self._incoming.write(data)
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                while part := self._cipher.read(_CHUNK):
                    parts.append(part)
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        with self._lock:
            self._cipher.write(data)
            return self._outgoing.read()

"""The client: all calls, and transactions."""

from collections.abc import Iterator
from contextlib import contextmanager

from jetbridge.client.catalog import CatalogCalls
from jetbridge.client.connection import Connection
from jetbridge.client.ddl import DdlCalls
from jetbridge.client.dml import DmlCalls
from jetbridge.client.scan import ScanCalls


class Client(CatalogCalls, DdlCalls, ScanCalls, DmlCalls):
    """One catalog of one server; safe to use from several threads. Close it when done."""

    @contextmanager
    def transaction(self) -> Iterator["Client"]:
        """A view of this client whose scans all see one version of every table.

        There is no rollback: every statement is published when it ends.
        """
        transaction_id = self.create_transaction()
        yield Client(
            self._connection,
            self.catalog,
            transactions=self._transactions,
            transaction_id=transaction_id,
        )

    def close(self) -> None:
        """Ends all calls; of a transaction's view too, for they share the connection."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    location: str,
    catalog: str,
    token: str | None = None,
    *,
    tls_root_certs: bytes | None = None,
    transactions: bool = True,
) -> Client:
    """Connects to `grpc://HOST:PORT` or `grpc+tls://HOST:PORT`; nothing is sent yet.

    `tls_root_certs`: PEM of the authorities to trust instead of the system's.
    `transactions`: False saves the call with which each statement asks for a transaction id.
    """
    connection = Connection(location, catalog, token, tls_root_certs)
    return Client(connection, catalog, transactions=transactions)

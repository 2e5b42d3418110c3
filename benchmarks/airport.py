"""Sends statements as DuckDB's Airport extension does, with a plain pyarrow.flight client."""

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import msgpack
import pyarrow as pa
from pyarrow import flight

CATALOG, SCHEMA = "bench", "s"
ROWID_INDEX = 2**64 - 1
CHUNK_ROWS = 2048

_STANDARD = {
    "airport-user-agent": "airport/20250723",
    "airport-client-session-id": str(uuid.uuid4()),
    "airport-catalog": CATALOG,
}


def new_table(name: str, schema: pa.Schema) -> dict[str, Any]:
    """Return the request of CREATE TABLE."""
    return {
        "catalog_name": CATALOG,
        "schema_name": SCHEMA,
        "table_name": name,
        "arrow_schema": schema.serialize().to_pybytes(),
        "on_conflict": "error",
        "not_null_constraints": [],
        "unique_constraints": [],
        "check_constraints": [],
        "primary_key_columns": [],
        "unique_columns": [],
        "multi_key_primary_keys": [],
        "extra_constraints": [],
    }


class Session:
    """Send actions and exchanges to one server, with the headers of the extension."""

    def __init__(self, location: str) -> None:
        self._client = flight.FlightClient(location)
        self._standard = {**_STANDARD, "authority": location}

    def action(self, name: str, request: dict[str, Any], **more: str) -> bytes | None:
        """Return the body of the first result; the extension ignores the others, too."""
        options = self._options({"airport-action-name": name, **more})
        action = flight.Action(name, msgpack.packb(request))
        results = [result.body.to_pybytes() for result in self._client.do_action(action, options)]
        return results[0] if results else None

    def create_schema(self, name: str = SCHEMA) -> None:
        self.action(
            "create_schema",
            {"catalog_name": CATALOG, "schema": name, "comment": None, "tags": {}},
        )

    def drop_schema(self, name: str) -> None:
        request = {"type": "schema", "catalog_name": CATALOG, "schema_name": "", "name": name}
        self.action("drop_schema", {**request, "ignore_not_found": False})

    def create_table(self, name: str, schema: pa.Schema) -> "Table":
        return self._table(self.action("create_table", new_table(name, schema)))

    def drop_table(self, name: str) -> None:
        request = {"type": "table", "catalog_name": CATALOG, "schema_name": SCHEMA, "name": name}
        self.action("drop_table", {**request, "ignore_not_found": False})

    def alter(self, name: str, table: str, **more: Any) -> None:
        target = {"catalog": CATALOG, "schema": SCHEMA, "name": table, "ignore_not_found": False}
        self.action(name, {**target, **more})

    def begin(self) -> str:
        """Begin a statement as the extension does; return the id of its transaction."""
        answer = self.action("create_transaction", {"catalog_name": CATALOG})
        self.action("catalog_version", {"catalog_name": CATALOG})
        return str(msgpack.unpackb(answer)["identifier"])

    def read(self, ticket: flight.Ticket, **more: str) -> flight.FlightStreamReader:
        return self._client.do_get(ticket, self._options(more))

    def exchange(self, descriptor: flight.FlightDescriptor, **headers: str) -> Any:
        return self._client.do_exchange(descriptor, self._options(headers))

    def _table(self, info: bytes | None) -> "Table":
        return Table(self, flight.FlightInfo.deserialize(info))

    def _options(self, more: dict[str, str]) -> flight.FlightCallOptions:
        headers = {**self._standard, "airport-trace-id": str(uuid.uuid4()), **more}
        return flight.FlightCallOptions(
            headers=[(key.encode(), value.encode()) for key, value in headers.items()]
        )


class Table:
    """Run statements on one table."""

    def __init__(self, session: Session, info: flight.FlightInfo) -> None:
        self._session, self._info = session, info
        self.descriptor = info.descriptor

    def read_all(self) -> pa.Table:
        """Read the whole table by one DoGet."""
        return self.stream().read_all()

    def stream(self) -> flight.FlightStreamReader:
        return self._session.read(self._info.endpoints[0].ticket)

    def select(self, columns: list[int], *filters: dict[str, Any]) -> int:
        """Run a SELECT; return the number of rows."""
        transaction = self._session.begin()
        return sum(batch.num_rows for batch in self._scan(transaction, columns, filters))

    def insert(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        return self._send("insert", self._session.begin(), schema, batches)

    def insert_returning(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        headers = self._headers("insert", self._session.begin(), returning=True)
        writer, reader = self._session.exchange(self.descriptor, **headers)
        with writer:
            writer.begin(schema)
            rows = 0
            for batch in batches:
                writer.write_batch(batch)
                rows += reader.read_chunk().data.num_rows
            writer.done_writing()
            reader.read_chunk()
        return rows

    def update(self, columns: list[int], new: pa.Table, *filters: dict[str, Any]) -> int:
        """Set the values of `new`, one row for each row that the filters select."""
        transaction = self._begin_change()
        rowids = _row_ids(self._scan(transaction, columns, filters))
        schema = new.schema.append(pa.field("rowid", pa.int64()))
        return self._send("update", transaction, schema, _with_values(rowids, new, schema))

    def delete(self, columns: list[int], *filters: dict[str, Any]) -> int:
        transaction = self._begin_change()
        schema = pa.schema([pa.field("rowid", pa.int64())])
        rowids = _row_ids(self._scan(transaction, columns, filters))
        batches = (pa.record_batch([ids], schema=schema) for ids in rowids)
        return self._send("delete", transaction, schema, batches)

    def _begin_change(self) -> str:
        transaction = self._session.begin()
        self._session.action(
            "catalog_version", {"catalog_name": CATALOG}
        )  # the extension asks twice
        return transaction

    def _send(
        self, operation: str, transaction: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """Open the exchange, then read the batches: the scan of UPDATE runs inside of it."""
        headers = self._headers(operation, transaction)
        writer, reader = self._session.exchange(self.descriptor, **headers)
        with writer:
            writer.begin(schema)
            assert reader.schema is not None
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            metadata = reader.read_chunk().app_metadata
        return int(msgpack.unpackb(metadata.to_pybytes())["total_changed"])

    def _headers(
        self, operation: str, transaction: str, *, returning: bool = False
    ) -> dict[str, str]:
        return {
            "airport-operation": operation,
            "return-chunks": "1" if returning else "0",
            "airport-transaction-id": transaction,
            "airport-flight-path": self._path(),
        }

    def _scan(
        self, transaction: str, columns: list[int], filters: tuple[dict[str, Any], ...]
    ) -> Iterator[pa.RecordBatch]:
        headers = {
            "airport-transaction-id": transaction,
            "airport-trace-id": str(uuid.uuid4()),
            "airport-flight-path": self._path(),
        }
        names = [self._info.schema.names[i] if i != ROWID_INDEX else "rowid" for i in columns]
        pushed = {"filters": filters, "column_binding_names_by_index": names}
        parameters = {
            "json_filters": json.dumps(pushed, separators=(",", ":")),
            "column_ids": columns,
            "table_function_parameters": "",
            "table_function_input_schema": "",
            "at_unit": "",
            "at_value": "",
        }
        request = {"descriptor": self.descriptor.serialize(), "parameters": parameters}
        answer = self._session.action("endpoints", request, **headers)
        for endpoint in msgpack.unpackb(answer):
            ticket = flight.FlightEndpoint.deserialize(endpoint).ticket
            for part in self._session.read(ticket, **headers):
                yield part.data

    def _path(self) -> str:
        return "/".join(part.decode() for part in self.descriptor.path)


def comparison(operator: str, column: int, type_id: str, value: Any) -> dict[str, Any]:
    """Return `column <operator> value` as DuckDB serialises it; `column` is its index."""
    data_type = {"id": type_id, "type_info": None}
    no_location = {"alias": "", "query_location": ROWID_INDEX}
    return {
        "expression_class": "BOUND_COMPARISON",
        "type": operator,
        **no_location,
        "left": {
            "expression_class": "BOUND_COLUMN_REF",
            "type": "BOUND_COLUMN_REF",
            **no_location,
            "return_type": data_type,
            "binding": {"table_index": 0, "column_index": column},
            "depth": 0,
        },
        "right": {
            "expression_class": "BOUND_CONSTANT",
            "type": "VALUE_CONSTANT",
            **no_location,
            "value": {"type": data_type, "is_null": False, "value": value},
        },
    }


def _row_ids(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Array]:
    for batch in batches:
        rowids = batch.column("rowid")
        for start in range(0, len(rowids), CHUNK_ROWS):
            yield rowids.slice(start, CHUNK_ROWS)


def _with_values(
    rowids: Iterable[pa.Array], new: pa.Table, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    start = 0
    for ids in rowids:
        values = new.slice(start, len(ids)).combine_chunks().to_batches()[0]
        yield pa.record_batch([*values.columns, ids], schema=schema)
        start += len(ids)

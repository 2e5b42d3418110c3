"""Removes partition specs by dropped columns from the metadata, once no snapshot needs them."""

from jetbridge.backends.lake.errors import StaleMetadata
from jetbridge.backends.lake.files import readable
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.lost_partitions import lost_specs
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.warehouse.java_catalog import static
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.runtime.cancellation import current


def forget_lost_partitions(lake: Lake, state: TableState) -> None:
    """Remove the lost specs that no snapshot needs; raises StaleMetadata."""
    lists = [snapshot.manifest_list for snapshot in state.snapshots()]
    lost = lost_specs(state)
    if not lost or not all(lists):
        return
    paths = [readable(location) for location in lists if location]
    rows = lake.read.reader.query(queries.manifest_specs(paths))
    unused = lost - set(rows.column(0).to_pylist())
    if unused:
        _remove_specs(lake, state, unused)


def _remove_specs(lake: Lake, state: TableState, specs: frozenset[int]) -> None:
    with lake.warehouse.session(state.title()) as session:
        operations = lake.warehouse.java_table(session, state).operations()
        base = operations.current()
        if base.metadataFileLocation() != state.location:
            raise StaleMetadata
        numbers = session.jvm.java.util.HashSet()
        for number in specs:
            numbers.add(number)
        builder = static(session, "TableMetadata.buildFrom")(base)
        removal = getattr(session.jvm.org.apache.iceberg, "MetadataUpdate$RemovePartitionSpecs")
        removal(numbers).applyTo(builder)
        with current().publishing():
            operations.commit(base, builder.build())

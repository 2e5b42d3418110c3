"""Print the peak memory of a process after each of several CREATE TABLE AS, in MiB as JSON.

python -m tests.pipeline.ctas_memory lake WAREHOUSE ROWS...
python -m tests.pipeline.ctas_memory mssql CONNECTION_STRING ROWS...
"""

import json
import resource
import sys

from jetbridge.app.configuration import load_config
from jetbridge.app.sessions import open_session
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import parse
from jetbridge.config import Config
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session

# Some 110 bytes a row. Without Spark: its workers are other processes.
STATEMENT = """
SET engine = 'duckdb'; SET mssql_direct_load_rows = '1000000000';
CREATE OR REPLACE TABLE {schema}.memory AS
SELECT i AS id, repeat('x', 90) || i AS s FROM range({rows}) r(i)
"""


def peak_after(session: Session, schema: str, rows: int) -> float:
    """Return the most resident memory that the process has had so far."""
    for outcome in run(session, STATEMENT.format(schema=schema, rows=rows)):
        report = outcome.report
    assert report is not None
    assert report.rows_written == rows
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(kind: str, place: str, *sizes: str) -> None:
    if kind == "lake":
        config, schema = load_config(None, warehouse=place), "lake.s"
    else:
        config, schema = Config(catalogs={"m": MssqlConfig(address=parse(place))}), "m.dbo"
    with open_session(config) as session:
        if kind == "lake":
            list(run(session, "CREATE SCHEMA lake.s"))
        peaks = [peak_after(session, schema, int(size)) for size in sizes]
    sys.stdout.write(json.dumps(peaks) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

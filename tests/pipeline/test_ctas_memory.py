"""SC-002: the memory of a large CREATE TABLE AS does not grow with its rows."""

import json
import subprocess
import sys

import pytest

from tests.helpers import mssql_server

pytestmark = pytest.mark.xdist_group(__name__)

FEW, MANY = 200_000, 1_000_000
# The rows that MANY has more are some 85 MB.
MOST_MIB = 40


def peaks(kind: str, place: str) -> tuple[float, float]:
    """Return the peak memory of a process after the small statement, and after the large one."""
    command = [sys.executable, "-m", "tests.pipeline.ctas_memory", kind, place]
    command += [str(FEW), str(MANY)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    few, many = json.loads(done.stdout.splitlines()[-1])
    return few, many


@pytest.mark.lake
def test_sc_002_memory_of_a_million_rows_into_a_lake(tmp_path):
    few, many = peaks("lake", str(tmp_path))
    assert many - few < MOST_MIB, (few, many)


@pytest.mark.mssql
def test_sc_002_memory_of_a_million_rows_into_sql_server():
    few, many = peaks("mssql", mssql_server.address().for_odbc())
    assert many - few < MOST_MIB, (few, many)

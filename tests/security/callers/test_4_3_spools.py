"""Rows on their way into SQL Server: the next start spares living spools, and takes dead ones.

Seen: the sweep of temporary folders took the spool of a load that was still running.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.database import SpoolOptions
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.spool import open_spool
from jetbridge.runtime.temporary_folders import sweep

pytestmark = pytest.mark.mssql
ROWS = pa.record_batch({"n": list(range(1000))})
LOADER = """
import sys, time
import pyarrow as pa
from jetbridge.backends.mssql.database import SpoolOptions
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.spool import open_spool
with open_spool(SpoolOptions(sys.argv[1]), MssqlSettings(copy_flush_rows=1000)) as spool:
    spool.add(pa.record_batch({"n": list(range(1000))}))
    print(spool.parts[0].files[0], flush=True)
    time.sleep(60)  # until it is killed
"""


def test_a_living_spool_outlives_the_sweep_of_another_process(tmp_path):
    command = [sys.executable, "-c", LOADER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loader:
        assert loader.stdout is not None
        file = Path(loader.stdout.readline().strip())
        sweep(tmp_path)
        assert file.exists()
        loader.kill()
        loader.wait()
        sweep(tmp_path)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("shared", "mode"), [(False, 0o700), (True, 0o777)])
def test_only_workers_of_a_cluster_may_see_the_rows_in_a_spool(tmp_path, shared, mode):
    options = SpoolOptions(str(tmp_path), shared=shared)
    umask = os.umask(0)
    try:
        with open_spool(options, MssqlSettings(copy_flush_rows=1000)) as spool:
            spool.add(ROWS)
            (folder,) = tmp_path.iterdir()
            assert folder.stat().st_mode & 0o777 == mode
    finally:
        os.umask(umask)


def test_a_living_spool_outlives_a_sweep_of_its_own_process(tmp_path):
    with open_spool(SpoolOptions(str(tmp_path)), MssqlSettings(copy_flush_rows=1000)) as spool:
        spool.add(ROWS)
        sweep(tmp_path)
        assert list(spool.batches()) == [ROWS]
    assert list(tmp_path.iterdir()) == []


SESSION = """
import sys, time
from pathlib import Path
from typing import Any
from jetbridge.config import Config
from jetbridge.app.sessions import _runner
made: Any = _runner(Config(), "an engine", [])
spool = Path(made.folder, made.prefix())
spool.mkdir()
print(spool, flush=True)
time.sleep(60)  # until it is killed
"""


def test_spools_of_queries_that_spark_runs_have_an_owner_too(tmp_path):
    command = [sys.executable, "-c", SESSION]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as session:
        assert session.stdout is not None
        spool = Path(session.stdout.readline().strip())
        sweep(tmp_path)
        assert spool.is_dir()
        session.kill()
        session.wait()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []

"""The example catalog and the Python of the README, as a reader would run them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jetbridge
from jetbridge.catalog import CatalogVersion
from jetbridge.client import Client
from jetbridge.errors import NotSupported
from jetbridge.expr import Column, Comparison, Constant
from tests.integration.documents.example import EXAMPLE, parquet_folder

ROOT = EXAMPLE.parents[1]
ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "buyer": ["ada", None, "çelik"],
        "placed": [date(2026, 1, 2), date(2026, 2, 3), None],
        "lines": [[{"sku": "a", "n": 1}], [], None],
    }
)
LARGE = pa.table({"n": pa.array(range(200_000), pa.int32())})


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, table in (("shop/orders", ORDERS), ("shop/Large", LARGE), ("empty/none", None)):
        path: Path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        if table is not None:
            pq.write_table(table, path)
    (tmp_path / "shop" / "README.txt").write_text("no table")
    found: Path = tmp_path
    return found


@pytest.fixture
def files(folder) -> Iterator[Client]:
    with (
        jetbridge.serve({"files": parquet_folder().ParquetFolder(folder)}, port=0) as server,
        jetbridge.connect(server.location, "files") as client,
    ):
        yield client


def test_every_subfolder_is_a_schema_and_every_file_a_table(files):
    listed = {s.name: {t.name: t.schema for t in s.tables} for s in files.list_schemas()}
    assert listed == {"empty": {}, "shop": {"Large": LARGE.schema, "orders": ORDERS.schema}}
    assert files.catalog_version() == CatalogVersion(1, fixed=True)


def test_rows_are_those_of_the_files(files):
    assert files.read("shop", "orders").equals(ORDERS)
    assert files.read("SHOP", "large").equals(LARGE)


def test_projection_and_filter_lose_nothing(files):
    wanted = Comparison(">", Column("id"), Constant("BIGINT", 1))
    found = files.read("shop", "orders", ["buyer", "id"], wanted).to_pylist()
    kept = [row for row in found if row["id"] > 1]
    assert kept == [{"buyer": None, "id": 2}, {"buyer": "çelik", "id": 3}]


def test_folder_is_read_only(files):
    with pytest.raises(NotSupported, match="does not support INSERT"):
        files.insert("shop", "orders", ORDERS)
    with pytest.raises(NotSupported, match="does not support CREATE or DROP SCHEMA"):
        files.create_schema("more")


def test_example_run_as_a_script_serves_the_folder(folder):
    """Take a free port: the script itself takes the one of the documents."""
    script = (
        "import functools, jetbridge, runpy, sys;"
        "jetbridge.serve = functools.partial(jetbridge.serve, port=0);"
        f"sys.argv = ['parquet_folder.py', {str(folder)!r}];"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on grpc://127.0.0.1:")
            with jetbridge.connect(line.split()[-1], "files") as client:
                assert client.read("shop", "orders").equals(ORDERS)
        finally:
            process.terminate()


def blocks_of(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_python_of_the_readme_runs(folder):
    example = parquet_folder()
    blocks = blocks_of("README.md")
    assert blocks
    for block in blocks:
        known: dict[str, Any] = {"MyCatalog": lambda: example.ParquetFolder(folder)}
        exec(compile(block, "README.md", "exec"), known)  # noqa: S102 - our own words
        known["client"].close()
        assert known["rows"].equals(ORDERS)


def test_conversation_of_the_demo_prints_what_it_promises() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples/conversation.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = dict(re.findall(r"-- (.+)\n(.+)\n", run.stdout))
    assert answers["UPDATE ... SET price = price * 0.9"] == "2 rows"
    assert "'price': 189.0" in answers["SELECT *"]
    assert "'price': 210.0" in answers["SELECT * AT (VERSION => 1)"]
    assert "(id) = (1) already exists" in answers["INSERT of an existing key"]

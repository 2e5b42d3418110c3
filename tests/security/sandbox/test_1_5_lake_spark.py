"""Spark accepts only callers with the secret of this start, and listens on loopback only."""

import re
import socket
import struct

import psutil
import pytest

from jetbridge.spark import SparkEngine
from jetbridge.spark.settings import complete, mask_secrets
from jetbridge.spark.startup import warn_open
from tests.helpers import lakes
from tests.helpers.jvms import jvms

pytestmark = pytest.mark.lake

AUTHENTICATE, SECRET = "spark.authenticate", "spark.authenticate.secret"
# org.apache.spark.network.protocol: StreamRequest, and the answer to it that has a file.
STREAM_REQUEST, STREAM_RESPONSE = 6, 7


@pytest.fixture(scope="module")
def engine() -> SparkEngine:
    lakes.ready_lake()
    return lakes.engine()


def ask_for_a_file(port: int, name: str) -> bytes:
    """Return the answer of the driver to a caller without authentication."""
    body = name.encode()
    message = struct.pack(">qbi", 8 + 1 + 4 + len(body), STREAM_REQUEST, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(message)
        return connection.recv(4096)


def test_files_of_the_driver_are_for_those_who_know_the_secret(engine):
    """Otherwise any user of the machine gets them, and can send objects to the driver."""
    with engine.session() as session:
        context = session.spark.sparkContext
        jars = context._jsc.sc().listJars()
        jar = next(str(jars.apply(n)) for n in range(jars.size()) if "sqlite" in str(jars.apply(n)))
        port = int(session.spark.conf.get("spark.driver.port"))
    found = re.fullmatch(rf"spark://127\.0\.0\.1:{port}(/jars/.+\.jar)", jar)
    assert found, jar
    answer = ask_for_a_file(port, found[1])
    assert len(answer) < 9 or answer[8] != STREAM_RESPONSE


def test_each_start_has_a_secret_of_its_own(tmp_path):
    first, second = (complete({}, tmp_path) for _ in range(2))
    assert first[AUTHENTICATE] == second[AUTHENTICATE] == "true"
    assert len(first[SECRET]) == 64
    assert first[SECRET] != second[SECRET]
    assert mask_secrets(first)[SECRET] == "***"


def test_a_cluster_has_the_secret_that_its_workers_have(tmp_path):
    assert SECRET not in complete({"spark.master": "spark://host:7077"}, tmp_path)
    given = {"spark.master": "spark://host:7077", AUTHENTICATE: "true", SECRET: "of the cluster"}
    assert complete(given, tmp_path)[SECRET] == "of the cluster"


def test_spark_of_one_machine_listens_on_loopback_only():
    """The driver, the executor and the workers of Python."""
    listening = [
        each.laddr
        for jvm in jvms(psutil.Process())
        for process in (jvm, *jvm.children(recursive=True))
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.parametrize(("given", "warns"), [({}, True), ({AUTHENTICATE: "true"}, False)])
def test_a_cluster_without_a_secret_is_warned_about(caplog, given, warns):
    warn_open({"spark.master": "spark://host:7077", **given})
    assert ("spark.authenticate" in caplog.text) == warns

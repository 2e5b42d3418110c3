"""kill -9 of a lake's server, or of Spark beneath it, in the middle of what it writes."""

from collections.abc import Iterator

import pytest

from jetbridge.errors import Unavailable
from tests.faults.lake.scene import WORKS, Scene, opened
from tests.faults.moments import Moment

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group(__name__)]

DATA, METADATA, STAGING = "TABLE/data", "TABLE/metadata", ".jetbridge/staging"
MANIFEST, LISTED, TABLE = "*-m0.avro", "snap-*.avro", "*.metadata.json"
KILLS = {"server": lambda scene: scene.server.kill(), "spark": lambda s: s.server.jvm().kill()}

# Merges are broken off in test_cluster.py.
FEW = [
    pytest.param("insert", "spark", Moment(METADATA, MANIFEST), marks=pytest.mark.full),
    ("plain compaction", "server", Moment(METADATA, MANIFEST)),
]
MOMENTS = {
    "insert": [
        Moment(DATA, "*.parquet"),
        Moment(DATA, "*.parquet", delay=0.5),
        Moment(METADATA, MANIFEST),
        Moment(METADATA, LISTED),
        Moment(METADATA, TABLE),
        Moment(METADATA, TABLE, delay=0.01),
    ],
    "laid insert": [
        Moment(DATA, "*.parquet", 2),
        Moment(METADATA, LISTED, 2),
        Moment(METADATA, TABLE, 2),
    ],
    "merge": [
        Moment(STAGING, "*.parquet"),
        Moment(METADATA, TABLE),
        Moment(DATA, "*.parquet"),
        Moment(DATA, "*.parquet", 4),
        Moment(DATA, "*.puffin"),
        Moment(METADATA, MANIFEST),
        Moment(METADATA, LISTED),
        Moment(METADATA, TABLE, 2),
        Moment(METADATA, TABLE, 3),
        Moment(METADATA, TABLE, 3, delay=0.01),
    ],
    "plain compaction": [Moment(DATA, "*.parquet"), Moment(METADATA, MANIFEST)],
    "compaction": [
        Moment(DATA, "*.parquet"),
        Moment(DATA, "*.parquet", 2),
        Moment(DATA, "*.parquet", 3),
        Moment(METADATA, MANIFEST),
        Moment(METADATA, LISTED),
        Moment(METADATA, TABLE),
        Moment(METADATA, TABLE, delay=0.01),
    ],
}
MANY = [
    (kind, victim, moment)
    for kind, moments in MOMENTS.items()
    for moment in moments
    for victim in KILLS
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(tmp_path_factory.mktemp("killed")) as there:
        yield there


def check(scene: Scene, kind: str, victim: str, moment: Moment) -> None:
    with scene.server.client() as client:
        work = WORKS[kind](scene, client)
        ended = scene.break_off(client, work, moment, KILLS[victim])
    assert isinstance(ended.error, Unavailable | ConnectionError | None), ended.error
    if victim == "server":
        scene.server.restart()
    with scene.server.client() as client:
        scene.settle(client, work, done=ended.error is None)
        scene.check_next_statements(client, work.table)
        scene.check_swept(client, work.table)


@pytest.mark.parametrize(("kind", "victim", "moment"), FEW, ids=str)
def test_killed_in_the_middle_the_table_is_as_before_or_after(scene, kind, victim, moment):
    check(scene, kind, victim, moment)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "victim", "moment"), MANY, ids=str)
def test_killed_at_any_moment_the_table_is_as_before_or_after(scene, kind, victim, moment):
    check(scene, kind, victim, moment)

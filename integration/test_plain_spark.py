"""The main job on unmodified Spark and without the native part: results are the same without all code that relies on
Spark's internals, and with messages of confluent-kafka."""

import json
from collections.abc import Iterator

import psutil
import pytest

from connectors.native.library import SWITCH as NATIVE
from dsms.spark.compat.shortcut import SWITCH
from integration.cluster import Cluster, kill_9, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
PLAIN = {SWITCH: "1", NATIVE: "off"}
STATEMENTS = """
    REGISTER SOURCE readings (room VARCHAR NOT NULL, t INT) FROM "{p}readings" PARTITIONS 2 IDLE NEVER;
    CREATE STREAM rooms OVER readings KEY room;
    CREATE STREAM every OVER readings KEY NULL;
    CREATE STREAMED VIEW hot AS SELECT room, t FROM R(rooms) WHERE t > 80;
    CREATE STREAMED VIEW counts AS SELECT room, COUNT(*) AS n FROM every GROUP BY room;
    CREATE STREAMED VIEW pairs AS SELECT h.room, h.t, c.n FROM R(hot) h JOIN R(counts) c ON h.room = c.room
"""
ROWS = [("a", 78, 1), ("a", 105, 2), ("c", 95, 4), ("a", 76, 5), ("c", 103, 6)]
HOT = [("+", "a", 105, 2), ("+", "c", 95, 4), ("-", "a", None, 5), ("u", "c", 103, 6)]
COUNTS = [("+", "a", 1, 1), ("u", "a", 2, 2), ("+", "c", 1, 4), ("u", "a", 3, 5), ("u", "c", 2, 6)]
#: A pair exists while its room is hot.
PAIRS = [("+", "a", 2, 2), ("+", "c", 1, 4), ("-", "a", None, 5), ("u", "c", 2, 6)]


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("plain")) as cluster:
        cluster.start_executor(environment=PLAIN)
        yield cluster


def test_results_are_the_same_also_after_a_crash(cluster: Cluster, unique: str) -> None:
    cluster.sql(STATEMENTS.format(p=unique))
    feed(cluster, unique, ROWS[:3])
    cluster.await_frontier(["dsms.hot", "dsms.counts", "dsms.pairs"], 5)
    kill_9(cluster.executors[0])
    cluster.start_executor(environment=PLAIN)
    feed(cluster, unique, ROWS[3:])
    cluster.await_frontier(["dsms.hot", "dsms.counts", "dsms.pairs"], 7)
    assert published(cluster, "dsms.hot", "t") == HOT
    assert published(cluster, "dsms.counts", "n") == COUNTS
    assert published(cluster, "dsms.pairs", "n") == PAIRS
    assert modules_below(cluster) >= {"pyspark.daemon"}
    assert not modules_below(cluster) & {"dsms.spark.compat.worker_daemon"}


def feed(cluster: Cluster, unique: str, rows: list[tuple[str, int, int]]) -> None:
    write(
        cluster.kafka, f"{unique}readings", [Input(json.dumps({"room": r, "t": t}).encode(), ts) for r, t, ts in rows]
    )
    advance(cluster.kafka, f"{unique}readings", rows[-1][2] + 1, 2)


def published(cluster: Cluster, topic: str, column: str) -> list[tuple]:
    """The changes of a result with one partition: operation, room, a column (None if the row has ended), instant."""
    found = []
    for change in changes(cluster.kafka, topic):
        room, value = json.loads(change.key or b"{}")["room"], json.loads(change.value) if change.value else {}
        found.append((change.op, room, value.get(column), change.ts))
    return sorted(found, key=lambda one: (one[3], one[1]))


def modules_below(cluster: Cluster) -> set[str]:
    """The modules that Python processes of the last executor run."""
    below = psutil.Process(cluster.executors[-1].pid).children(recursive=True)
    commands = [one.cmdline() for one in below if one.status() != psutil.STATUS_ZOMBIE]
    return {word for command in commands for word in command if word.startswith(("pyspark.", "dsms."))}

"""Seeded input with everything that can go wrong in it, queries over it, and all that they write."""

import json
import random
from dataclasses import dataclass

from integration.cluster import Cluster
from integration.kafka_log import Change, Input, Letter, advance, changes_of, letters, write
from integration.kafka_topics import create_topic

PARTITIONS = 2
SLACK = 5
SEED = 7
#: An instant above all of the workload's.
END = 1_000_000
SOURCE = "src"
KEYED, FAULTY, KEYLESS, AVRO = MAIN = ("hot", "ratio", "flat", "encoded")
#: Views that differ in a constant: the third and fourth of each run as one.
SUMS, FLATS = {"sum1": 10, "sum2": 20, "sum3": 30, "sum4": 40}, {"flat2": 70, "flat3": 60, "flat4": 50}
VIEWS = (*MAIN, *SUMS, *FLATS)
STATEMENTS = """
    REGISTER SOURCE {p}src (k VARCHAR NOT NULL, v INT, d INT) FROM "{topic}" SLACK {slack} IDLE NEVER;
    CREATE STREAM {p}keyed OVER {p}src KEY k;
    CREATE STREAM {p}all OVER {p}src KEY NULL;
    CREATE STREAMED VIEW {p}hot AS SELECT k, v FROM R({p}keyed) WHERE v > 50;
    CREATE STREAMED VIEW {p}ratio AS SELECT k, v / d AS q FROM R({p}keyed);
    CREATE STREAMED VIEW {p}flat AS SELECT k, 100 / d AS q, v FROM R({p}all) WHERE v < 80;
    CREATE STREAMED VIEW {p}encoded WITH (format = avro) AS SELECT k, v, d FROM R({p}keyed) WHERE v > 60;
"""
SUM = """CREATE STREAMED VIEW {p}{name} WITH (format = avro) AS
    SELECT k, SUM(v) AS total, AVG(d) AS mean FROM R({p}keyed) WHERE v > {constant} GROUP BY k"""
FLAT = "CREATE STREAMED VIEW {p}{name} AS SELECT k, 100 / d AS q, v FROM R({p}all) WHERE v < {constant}"
BAD = (b"no json", b'{"k": "a", "v": "many"}', b'{"v": 3}', b"\xff\xfe", b"[]")


@dataclass(frozen=True)
class Outcome:
    """All that a workload's queries wrote: the result logs in order, the dead letters as a bag."""

    results: dict[str, list[Change]]
    dead: list[Letter]


@dataclass
class Feed:
    """The same input for all that are made alike, piece by piece, so that what happens meets work in progress."""

    kafka: str
    topic: str
    #: Records of a piece, and how many pieces there are.
    step: int
    pieces: int
    given: int = 0

    def piece(self) -> int:
        """Writes the next piece; gives an instant below which its results become final."""
        write(self.kafka, self.topic, workload(SEED + self.given, self.step, self.given * self.step))
        self.given += 1
        advance(self.kafka, self.topic, self.given * self.step, PARTITIONS)
        return self.given * self.step

    def rest(self) -> None:
        """Writes what is left, and the end."""
        while self.given < self.pieces:
            self.piece()
        advance(self.kafka, self.topic, END, PARTITIONS)


def feed_of(cluster: Cluster, step: int, pieces: int) -> Feed:
    """The workload's queries over a topic of the cluster's own, and what feeds it."""
    topic = create_topic(cluster.kafka, f"{cluster.name}-in", partitions=PARTITIONS)
    register(cluster, topic, cluster.name)
    return Feed(cluster.kafka, topic, step, pieces)


def workload(seed: int, count: int, first: int = 0) -> list[Input]:
    """Records of all partitions: instants wander up, some are late; some values are bad, some rows divide by zero."""
    chance = random.Random(seed)
    return [_input(chance, first + at) for at in range(count)]


def _input(chance: random.Random, at: int) -> Input:
    ts, partition = at + chance.randint(-2 * SLACK, SLACK), chance.randrange(PARTITIONS)
    if chance.random() < 0.05:
        return Input(chance.choice(BAD), ts, partition)
    row = {"k": f"k{chance.randrange(12)}", "v": chance.randrange(120), "d": chance.randrange(6)}
    op = "-" if chance.random() < 0.1 else "+"
    return Input(json.dumps(row).encode(), ts, partition, op)


def register(cluster: Cluster, topic: str, prefix: str) -> None:
    """Makes the workload's source, streams and views; names begin with the prefix."""
    cluster.sql(STATEMENTS.format(p=prefix, topic=topic, slack=SLACK))
    for shape, views in ((SUM, SUMS), (FLAT, FLATS)):
        cluster.sql(";".join(shape.format(p=prefix, name=name, constant=constant) for name, constant in views.items()))


def result_topic(prefix: str, view: str) -> str:
    """Where a view's results are."""
    return f"dsms.{prefix}{view}"


def await_all(cluster: Cluster, prefix: str, instant: int = END) -> None:
    """Returns when all views are final below the instant."""
    cluster.await_frontier([result_topic(prefix, view) for view in VIEWS], instant)


def outcome(kafka: str, prefix: str) -> Outcome:
    """What stands in Kafka now; the prefix is taken out of it, so that runs compare."""
    dead = [
        Letter(letter.value, tuple((name, value.replace(prefix, "")) for name, value in letter.headers))
        for letter in letters(kafka, f"{prefix}{SOURCE}")
    ]
    logs = changes_of(kafka, [result_topic(prefix, view) for view in VIEWS])
    return Outcome({view: logs[result_topic(prefix, view)] for view in VIEWS}, sorted(dead, key=repr))


def assert_same(outcome: Outcome, expected: Outcome) -> None:
    """The same records in the same order in every result partition, and the same dead letters."""
    for view in VIEWS:
        assert outcome.results[view] == expected.results[view], view
    assert outcome.dead == expected.dead


def finish(cluster: Cluster, feed: Feed, expected: Outcome) -> None:
    """Writes what is left, and asserts that in the end all is as expected."""
    feed.rest()
    await_all(cluster, cluster.name)
    assert_same(outcome(cluster.kafka, cluster.name), expected)


def assert_begins(outcome: Outcome, expected: Outcome) -> None:
    """Nothing is published that the undisturbed run does not have at the same place."""
    for view in VIEWS:
        for partition in range(PARTITIONS):
            part = [change for change in outcome.results[view] if change.partition == partition]
            whole = [change for change in expected.results[view] if change.partition == partition]
            assert part == whole[: len(part)], view

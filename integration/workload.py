"""A seeded workload: input with late and invalid records, queries over it, and their outcome."""

import json
import random
import re
from dataclasses import dataclass, replace

from connectors.kafka.client.names import ERROR_HEADER
from integration.cluster import Cluster
from integration.kafka_log import Change, Input, Letter, advance, changes_of, letters, write
from integration.kafka_topics import create_topic

PARTITIONS = 2
SLACK = 5
SEED = 27
#: An instant above all instants of the workload.
END = 1_000_000
SOURCE = "src"
KEYED, FAULTY, KEYLESS, AVRO = MAIN = ("hot", "ratio", "flat", "encoded")
#: Views that differ in a constant. From the third on, they run as a family.
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
    """The output of the workload's queries: the result logs in order, and the dead letters in any order."""

    results: dict[str, list[Change]]
    dead: list[Letter]


@dataclass
class Feed:
    """Writes the workload piece by piece, so that faults can be injected between the pieces."""

    kafka: str
    topic: str
    #: The number of records in a piece, and the number of pieces.
    step: int
    pieces: int
    given: int = 0

    def piece(self) -> int:
        """Writes the next piece; returns the instant below which its results become final."""
        write(self.kafka, self.topic, workload(SEED + self.given, self.step, self.given * self.step))
        self.given += 1
        advance(self.kafka, self.topic, self.given * self.step, PARTITIONS)
        return self.given * self.step

    def rest(self) -> None:
        """Writes the remaining pieces and the final heartbeats."""
        while self.given < self.pieces:
            self.piece()
        advance(self.kafka, self.topic, END, PARTITIONS)


def feed_of(cluster: Cluster, step: int, pieces: int, fragments: int = 1) -> Feed:
    """Creates the workload's queries over a new topic, each run by this number of fragments; returns the feed of the
    topic."""
    topic = create_topic(cluster.kafka, f"{cluster.name}-in", partitions=PARTITIONS)
    register(cluster, topic, cluster.name, fragments)
    return Feed(cluster.kafka, topic, step, pieces)


def workload(seed: int, count: int, first: int = 0) -> list[Input]:
    """Records for all partitions, out of order; some are late, some have invalid values, some rows divide by zero."""
    chance = random.Random(seed)
    return [_input(chance, first + at) for at in range(count)]


def _input(chance: random.Random, at: int) -> Input:
    ts, partition = at + chance.randint(-2 * SLACK, SLACK), chance.randrange(PARTITIONS)
    if chance.random() < 0.05:
        return Input(chance.choice(BAD), ts, partition)
    row = {"k": f"k{chance.randrange(12)}", "v": chance.randrange(120), "d": chance.randrange(6)}
    op = "-" if chance.random() < 0.1 else "+"
    return Input(json.dumps(row).encode(), ts, partition, op)


def register(cluster: Cluster, topic: str, prefix: str, fragments: int = 1) -> None:
    """Creates the workload's source, streams and views; their names begin with the prefix."""
    cluster.sql(divided(STATEMENTS.format(p=prefix, topic=topic, slack=SLACK), fragments))
    for shape, views in ((SUM, SUMS), (FLAT, FLATS)):
        listed = (shape.format(p=prefix, name=name, constant=constant) for name, constant in views.items())
        cluster.sql(divided(";".join(listed), fragments))


def divided(statements: str, fragments: int) -> str:
    """The statements, with the option `fragments` for each view."""
    if fragments == 1:
        return statements
    option = f"fragments = {fragments}"
    return re.sub(
        r"(VIEW \S+) (WITH \((.*?)\) )?AS", lambda found: f"{found[1]} WITH ({_both(found[3], option)}) AS", statements
    )


def _both(given: str | None, option: str) -> str:
    return f"{given}, {option}" if given else option


def result_topic(prefix: str, view: str) -> str:
    """The result topic of a view."""
    return f"dsms.{prefix}{view}"


def await_all(cluster: Cluster, prefix: str, instant: int = END) -> None:
    """Waits until all views are final below the instant."""
    cluster.await_frontier([result_topic(prefix, view) for view in VIEWS], instant)


def outcome(kafka: str, prefix: str) -> Outcome:
    """The current outcome in Kafka. Prefixes are removed, so that runs can be compared."""
    dead = [
        Letter(letter.value, tuple((name, value.replace(prefix, "")) for name, value in letter.headers))
        for letter in letters(kafka, f"{prefix}{SOURCE}")
    ]
    logs = changes_of(kafka, [result_topic(prefix, view) for view in VIEWS])
    return Outcome({view: logs[result_topic(prefix, view)] for view in VIEWS}, sorted(dead, key=repr))


def assert_same(outcome: Outcome, expected: Outcome) -> None:
    """Asserts that all result partitions have the same records in the same order, and the dead letters are the same."""
    for view in VIEWS:
        assert outcome.results[view] == expected.results[view], view
    assert outcome.dead == expected.dead


def without_reasons(outcome: Outcome) -> Outcome:
    """The outcome without the texts of dead letters, which another version may word differently."""
    dead = [
        Letter(letter.value, tuple(header for header in letter.headers if header[0] != ERROR_HEADER))
        for letter in outcome.dead
    ]
    return replace(outcome, dead=sorted(dead, key=repr))


def undisturbed(cluster: Cluster, step: int, pieces: int) -> Outcome:
    """Runs the workload with one executor and one fragment, which reads all input at once; returns the outcome."""
    feed_of(cluster, step, pieces).rest()
    cluster.start_executor(partitions=1)
    await_all(cluster, cluster.name)
    return outcome(cluster.kafka, cluster.name)


def finish(cluster: Cluster, feed: Feed, expected: Outcome, *, reworded: bool = False) -> None:
    """Writes the rest of the input, and asserts that the final outcome is the expected one. With `reworded` the reasons
    of dead letters may differ."""
    feed.rest()
    await_all(cluster, cluster.name)
    final = outcome(cluster.kafka, cluster.name)
    assert_same(*((without_reasons(final), without_reasons(expected)) if reworded else (final, expected)))


def assert_begins(outcome: Outcome, expected: Outcome) -> None:
    """Asserts that in each partition the published results are the beginning of the expected ones."""
    for view in VIEWS:
        for partition in range(PARTITIONS):
            part = [change for change in outcome.results[view] if change.partition == partition]
            whole = [change for change in expected.results[view] if change.partition == partition]
            assert part == whole[: len(part)], view

"""Draws queries whose input is shed while a service runs, and computes their estimates, or the part of their rows that
is left, again from the log of rates."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from zlib import crc32

from connectors.kafka.client.names import HEARTBEAT_HEADER, SHED, internal_topic
from connectors.simulation.faults import Fault, Kind
from connectors.simulation.kafka.batches import StoredRecord
from connectors.simulation.kafka.cluster import SimulatedCluster
from dsms.model.objects import Query, Source
from dsms.simulation.clients import Answer
from dsms.simulation.history import Layout, Publication, Statement
from dsms.simulation.progress import catalog_items
from dsms.simulation.topics import records_of, visible_records
from dsms.simulation.world import CLUSTER, World
from tests.simulation.rows import rows_left
from tests.support import splitmix

TOPIC, PARTITIONS = "sh", 2
SOURCE = f"REGISTER SOURCE ShSource (k INT, v BIGINT) FROM {TOPIC} IDLE AFTER 10000 SECONDS"
STREAM = "CREATE STREAM Sh OVER ShSource KEY NULL"
QUERY = """CREATE QUERY QS WITH (max_error = 0.9, deadline = '1 s') AS
    SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s FROM Sh GROUP BY k"""
REPAIR = "REPAIR QUERY QS"
#: A query without estimates, in half of the histories.
PART = """CREATE QUERY QP WITH (max_loss = 0.9, deadline = '1 s') AS
    SELECT STREAMED DISTINCT k, v FROM Sh WITH PREFERENCE ASC COUNT(k)"""
_PARTS = range(PARTITIONS)
#: When heartbeats make all rows final.
_UNTIL_S = 30.0
#: The seconds between which records are sent.
_BETWEEN_S = (4.0, 29.0)
#: A rate; or a rate as a whole, those of listed values and of others, and the listed values.
Rate = float | list
#: By partition: the first offset, and the probability that a record is kept from there on.
Rates = Mapping[int, Sequence[tuple[int, Rate]]]


def sheds(seed: int, theme: str) -> bool:
    """Whether the history of a seed has a query that is shed."""
    return not theme and Random(f"sheds {seed}").random() < 0.3


def shed_statements(seed: int) -> list[Statement]:
    """The creation of the query, which may be repaired later."""
    chance = Random(f"shed statements {seed}")
    begins = [Statement(1.3, SOURCE), Statement(1.35, STREAM), Statement(chance.choice([1.8, 1.8, 10.0]), QUERY)]
    if Random(f"part {seed}").random() < 0.5:
        begins.append(Statement(2.2, PART))
    return [*begins, Statement(round(chance.uniform(12.0, 29.0), 3), REPAIR)] if chance.random() < 0.3 else begins


def shed_publications(seed: int) -> list[Publication]:
    """Records of the query's source, in the order of their instants, which heartbeats of both partitions end."""
    chance = Random(f"shed records {seed}")
    times = sorted(round(chance.uniform(*_BETWEEN_S), 3) for _ in range(chance.choice([20, 60, 120])))
    found = [
        Publication(at_s, TOPIC, chance.randrange(PARTITIONS), _value(chance), ts=number)
        for number, at_s in enumerate(times)
    ]
    return [*found, *(Publication(_UNTIL_S, TOPIC, partition, heartbeat=len(times)) for partition in _PARTS)]


def shed_faults(seed: int, layout: Layout) -> list[Fault]:
    """Half of the histories lose the state while input is shed, so that what has been published is computed again."""
    chance = Random(f"shed faults {seed}")
    if chance.random() < 0.5:
        return []
    at_s = round(chance.uniform(*_BETWEEN_S), 3)
    kind: Kind = chance.choice(("store loses all", "store goes back"))
    for_s = round(chance.uniform(1, 10), 3)
    return [Fault(at_s, kind, for_s=for_s), *(Fault(at_s, "kill", name, "", 1.0) for name in layout.executor_names)]


def _value(chance: Random) -> bytes:
    return json.dumps({"k": chance.randrange(3), "v": chance.randrange(100)}).encode()


def wrong_estimates(world: World) -> Iterator[str]:
    """Compares the query's final rows with estimates that are computed again from the log of its source and the logged
    rates. Nothing is compared if not all rows are final, or if the query was repaired after that: then the differences
    wait for a later instant."""
    answers = [answer for answer in world.client.answers if answer.statement.sql in (SOURCE, STREAM, QUERY, REPAIR)]
    if not {SOURCE, STREAM, QUERY} <= {answer.statement.sql for answer in answers}:
        return
    if refused := [f"refused: {answer.error}" for answer in answers if answer.error]:
        yield from refused
    elif not _repaired_late(answers) and _ended(world.kafka):
        source, query = _source_and_query(world.kafka)
        expected = sorted(estimates(_kept(world.kafka, source, rates(world.kafka, query))))
        found = sorted(rows_left(world.published().get("dsms.QS", {})))
        if found != expected:
            yield f"QS is {found}, but the logs and rates imply {expected}"


def wrong_parts(world: World) -> Iterator[str]:
    """Compares the final rows of the query without estimates with those of the records that the logged rates keep."""
    answers = {answer.statement.sql: answer for answer in world.client.answers}
    if PART not in answers or not {SOURCE, STREAM} <= answers.keys():
        return
    if answers[PART].error:
        yield f"refused: {answers[PART].error}"
    elif _ended(world.kafka):
        source, query = _source_and_query(world.kafka, "QP")
        kept = _kept(world.kafka, source, rates(world.kafka, query))
        expected = sorted({(row["k"], row["v"]) for row, _ in kept})
        found = sorted(rows_left(world.published().get("dsms.QP", {})))
        if found != expected:
            yield f"QP is {found}, but the logs and rates imply {expected}"


def _repaired_late(answers: Iterable[Answer]) -> bool:
    return any(answer.statement.sql == REPAIR and answer.answered_s > _UNTIL_S for answer in answers)


def _ended(kafka: SimulatedCluster) -> bool:
    """Whether the last record of each partition is a heartbeat."""
    return all(logged and HEARTBEAT_HEADER in dict(logged[-1].headers) for logged in map(partial(_log, kafka), _PARTS))


def _log(kafka: SimulatedCluster, partition: int) -> list[StoredRecord]:
    return list(visible_records(kafka.log(kafka.image.topics[TOPIC], partition)))


def _source_and_query(kafka: SimulatedCluster, name: str = "QS") -> tuple[int, str]:
    """The number of the source, and the id of the query's last version."""
    items = list(catalog_items(kafka, CLUSTER))
    source = next(item for item in items if isinstance(item, Source) and item.topic == TOPIC)
    return source.number, [item.id for item in items if isinstance(item, Query) and item.name == name][-1]


def rates(kafka: SimulatedCluster, query: str) -> Rates:
    """The logged rates of a query, by partition."""
    found: dict[int, list[tuple[int, Rate]]] = {partition: [(0, 1.0)] for partition in _PARTS}
    for record in records_of(kafka, [internal_topic(CLUSTER, SHED)]):
        if record.key is not None and record.key.decode().split("/")[0] == query:
            offset, rate, *_ = json.loads(record.value or b"")
            found[int(record.key.decode().split("/")[2])].append((offset, rate))
    return found


def _kept(kafka: SimulatedCluster, source: int, rates: Rates) -> Iterator[tuple[dict[str, int], float]]:
    """The rows that are kept, each with its rate."""
    for partition in _PARTS:
        for record in _log(kafka, partition):
            if HEARTBEAT_HEADER in dict(record.headers):
                continue
            row = json.loads(record.value)
            rate = rate_of([rate for start, rate in rates[partition] if start <= record.offset][-1], row["k"])
            if splitmix.chance(splitmix.place(source, partition, record.offset), splitmix.SHEDDING) < rate:
                yield row, rate


def rate_of(rate: Rate, value: int) -> float:
    """The rate of a record whose preferred column has a value.

    >>> rate_of(0.5, 7), rate_of([0.5, 0.25, 1.0, [crc32(b'{"0":7}')]], 7)
    (0.5, 0.25)
    """
    if not isinstance(rate, list):
        return rate
    _, listed, others, values = rate
    return listed if crc32(json.dumps({"0": value}, separators=(",", ":")).encode()) in values else others


def estimates(kept: Iterable[tuple[dict[str, int], float]]) -> Iterator[tuple[int, int, int]]:
    """The key, count and sum of each group: a row with rate 1/4 stands for four.

    >>> list(estimates([({"k": 1, "v": 7}, 0.25), ({"k": 1, "v": 2}, 1.0)]))
    [(1, 5, 30)]
    """
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row, rate in kept:
        sums[row["k"]][0] += 1 / rate
        sums[row["k"]][1] += row["v"] / rate
    yield from ((key, round(count), round(total)) for key, (count, total) in sums.items())

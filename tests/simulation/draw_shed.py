"""Draws a query whose input is shed while a service runs, and computes its estimates from the log of rates."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from connectors.kafka.client.names import CATALOG, HEARTBEAT_HEADER, SHED, internal_topic
from connectors.kafka.logs.internal_log import CUT_OVER_KEY, Entry
from connectors.simulation.faults import Fault, Kind
from connectors.simulation.kafka.cluster import SimulatedCluster
from dsms.coordinator.catalog.catalog_records import read_part
from dsms.model.objects import Query, Source
from dsms.simulation.history import Layout, Publication, Statement
from dsms.simulation.topics import records_of, visible_records
from dsms.simulation.world import CLUSTER, World
from tests.simulation.rows import rows_left

TOPIC, PARTITIONS = "sh", 2
SOURCE = f"REGISTER SOURCE ShSource (k INT, v BIGINT) FROM {TOPIC} IDLE AFTER 10000 SECONDS"
STREAM = "CREATE STREAM Sh OVER ShSource KEY NULL"
QUERY = """CREATE QUERY QS WITH (max_error = 0.9, deadline = '1 s') AS
    SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s FROM Sh GROUP BY k"""
REPAIR = "REPAIR QUERY QS"
#: What shedding adds to the order of a record before it draws: independent of samples, which have smaller numbers.
_SALT = 1 << 20
#: The seconds between which records are sent.
_BETWEEN_S = (4.0, 29.0)
#: From an offset on, records of a partition are kept with a probability.
Rates = Mapping[int, Sequence[tuple[int, float]]]


def sheds(seed: int, theme: str) -> bool:
    """Whether the history of a seed has a query that is shed."""
    return not theme and Random(f"sheds {seed}").random() < 0.3


def shed_statements(seed: int) -> list[Statement]:
    """The creation of the query, which may be repaired later."""
    chance = Random(f"shed statements {seed}")
    begins = [Statement(1.3, SOURCE), Statement(1.35, STREAM), Statement(chance.choice([1.8, 1.8, 10.0]), QUERY)]
    return [*begins, Statement(round(chance.uniform(12.0, 29.0), 3), REPAIR)] if chance.random() < 0.3 else begins


def shed_publications(seed: int, until_s: float) -> list[Publication]:
    """Records of the query's source, in the order of their instants, which heartbeats of both partitions end."""
    chance = Random(f"shed records {seed}")
    times = sorted(round(chance.uniform(*_BETWEEN_S), 3) for _ in range(chance.choice([20, 60, 120])))
    found = [
        Publication(at_s, TOPIC, chance.randrange(PARTITIONS), _value(chance), ts=number)
        for number, at_s in enumerate(times)
    ]
    return [*found, *(Publication(until_s, TOPIC, partition, heartbeat=len(times)) for partition in range(PARTITIONS))]


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
    """How the query's last rows differ from the estimates that the log of its source and the logged rates imply."""
    statements = [each.sql for each in world.history.statements]
    if not {SOURCE, STREAM, QUERY} <= {*statements}:
        return
    number, query = _number_and_query(world.kafka)
    expected = sorted(estimates(world.kafka, number, rates(world.kafka, query)))
    found = sorted(rows_left(world.published().get("dsms.QS", {})))
    if found != expected:
        yield f"QS is {found}, but the logs and rates imply {expected}"


def _number_and_query(kafka: SimulatedCluster) -> tuple[int, str]:
    """The number of the source, and the id of the query's last version."""
    number, query = 0, ""
    for record in records_of(kafka, [internal_topic(CLUSTER, CATALOG)]):
        if record.key is not None and record.key != CUT_OVER_KEY:
            _, item, _ = read_part(Entry(record.key, record.value, 0, 0))
            if isinstance(item, Source) and item.topic == TOPIC:
                number = item.number
            if isinstance(item, Query) and item.name == "QS":
                query = item.id
    return number, query


def rates(kafka: SimulatedCluster, query: str) -> Rates:
    """The logged rates of a query, by partition."""
    found: dict[int, list[tuple[int, float]]] = defaultdict(lambda: [(0, 1.0)])
    for record in records_of(kafka, [internal_topic(CLUSTER, SHED)]):
        if record.key is not None and record.key.decode().split("/")[0] == query:
            offset, rate, *_ = json.loads(record.value or b"")
            found[int(record.key.decode().split("/")[2])].append((offset, rate))
    return found


def estimates(kafka: SimulatedCluster, number: int, rates: Rates) -> Iterator[tuple[int, int, int]]:
    """The key, count and sum of each group: records that are kept stand for those that are not."""
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for partition in range(PARTITIONS):
        for record in visible_records(kafka.log(kafka.image.topics[TOPIC], partition)):
            if HEARTBEAT_HEADER in dict(record.headers):
                continue
            rate = [rate for start, rate in rates[partition] if start <= record.offset][-1]
            if chance_of(number, partition, record.offset) < rate:
                row = json.loads(record.value)
                sums[row["k"]][0] += 1 / rate
                sums[row["k"]][1] += row["v"] / rate
    for key, (count, total) in sums.items():
        yield key, round(count), round(total)


def chance_of(number: int, partition: int, offset: int) -> float:
    """splitmix64 over the place of a record, in Python's integers: the record is kept if the rate is greater.

    >>> round(chance_of(0, 1, 7), 6)
    0.0
    """
    z = ((number << 55) + (partition << 45) + offset + 0x9E3779B97F4A7C15 * (2 * _SALT + 1)) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return ((z ^ (z >> 31)) >> 11) / 2**53

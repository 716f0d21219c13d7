"""NEXMark's queries run at the same time in one cluster, over real Kafka, Redis and Spark: all end with DuckDB's
answers."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from benchmarks.nexmark.answers import decoded, final_values
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.load import final_ms, load_tagged
from benchmarks.nexmark.questions import QUESTIONS, SECONDS
from benchmarks.nexmark.reference import Reference, verify
from benchmarks.nexmark.streams import STREAMS
from benchmarks.nexmark.timeline import Timeline
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.schema_registry.registry import schema_lookup
from integration.cluster import Cluster, Refused, running

pytestmark = pytest.mark.services

#: 50 seconds of event time.
EVENTS = Events(20_000, Timeline(rate=400), seed=13)
OPTIONS = 'FORMAT AVRO TIMESTAMP BY "dateTime" TAGGED NONE IDLE NEVER'
#: The queries whose results change only at whole seconds. A bid changes the counts of five windows, or all rows of a
#: long session, so that with a result at every instant there would be far more changes than events.
EACH_SECOND = ("q5", "q11")
PREFIX = "nexmark."
PREFIX_BYTES = 5
DEADLINE_S = 120.0


@dataclass(frozen=True)
class RegisteredQueries:
    """A cluster with all queries registered, the reasons why some were refused, and the deadline of all answers."""

    cluster: Cluster
    refused: dict[str, Refused]
    reference: Reference
    deadline: float

    def left_s(self) -> float:
        """The seconds until the deadline that all queries share."""
        return max(self.deadline - time.monotonic(), 1.0)


@pytest.fixture(scope="module")
def registered(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegisteredQueries]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("nexmark")) as cluster:
        load_tagged(KafkaSettings(kafka), cluster.url, EVENTS, PREFIX)
        for stream in STREAMS.values():
            cluster.sql(stream.declaration(PREFIX + stream.topic, "", OPTIONS))
        cluster.sql(SECONDS)
        refused = {name: refusal for name in QUESTIONS if (refusal := ask(cluster, name)) is not None}
        cluster.start_executor()
        yield RegisteredQueries(cluster, refused, Reference(EVENTS), time.monotonic() + DEADLINE_S)


def ask(cluster: Cluster, name: str) -> Refused | None:
    """Registers a query; returns the error if it is refused."""
    try:
        text = QUESTIONS[name].over(synchronised=name in EACH_SECOND)
        cluster.sql(f"CREATE QUERY {name} WITH (format = avro) AS {text}")
    except Refused as refusal:
        return refusal
    return None


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_final_relation(registered: RegisteredQueries, name: str) -> None:
    assert name not in registered.refused, registered.refused.get(name)
    topic = registered.cluster.topic(name)
    registered.cluster.await_frontier(topic, final_ms(EVENTS), registered.left_s())
    wanted = registered.reference.answer(QUESTIONS[name])
    values = final_values(KafkaSettings(registered.cluster.kafka), topic)
    writer = schema_lookup(registered.cluster.url)(int.from_bytes(values[0][1:PREFIX_BYTES], "big"))
    verify(decoded(values, writer, PREFIX_BYTES, wanted), wanted, name)

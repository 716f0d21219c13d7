"""The input of a run: seeded records for three topics, with disorder, late and bad records, and heartbeats."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Producer

from integration.kafka_log import Input
from integration.workload import BAD

SLACK, TICK_S = 5, 0.5
#: The number of instants of a tick, and of records that each topic gets in it.
SPAN, RECORDS = 20, 20
#: An instant above all instants of a run.
END = 1_000_000_000
#: How many seconds the broker may be down.
_AWAY_S = 300


class Topic(NamedTuple):
    """A source topic. `quiet` is a partition that gets records only now and then; such a topic has no heartbeats."""

    name: str
    partitions: int
    quiet: int | None = None


#: The topics of the sources `main`, `side` and `quiet`; results over `quiet` depend on logged idle decisions.
MAIN, SIDE, QUIET = TOPICS = Topic("main", 2), Topic("side", 1), Topic("quiet", 2, quiet=1)


def tick(seed: int, number: int, topic: Topic) -> Iterator[Input]:
    """The records of a tick."""
    chance = random.Random(f"load {seed} {number} {topic.name}")
    for _ in range(RECORDS):
        ts = (number + 1) * SPAN + chance.randint(-3 * SLACK, SPAN - 1)
        partition = chance.randrange(topic.partitions)
        if partition == topic.quiet and number % 20:
            partition = 0
        if chance.random() < 0.04:
            yield Input(chance.choice(BAD), ts, partition)
            continue
        row = {"k": f"k{chance.randrange(40)}", "v": chance.randrange(120), "d": chance.randrange(6)}
        yield Input(json.dumps(row).encode(), ts, partition, "-" if chance.random() < 0.1 else "+")
    if topic.quiet is None:
        yield from (_heartbeat((number + 1) * SPAN, partition) for partition in range(topic.partitions))


def _heartbeat(instant: int, partition: int) -> Input:
    return Input(None, instant, partition, op="heartbeat")


@dataclass
class Load:
    """Publishes the records of all ticks, at their times or as soon as the broker takes them, in a thread."""

    kafka: str
    seed: int
    ticks: int
    #: The names of the topics in Kafka.
    topics: dict[Topic, str]
    sent: int = 0
    failure: Exception | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Starts publishing."""
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def finish(self) -> None:
        """Waits until everything is published, then closes all partitions by a last heartbeat."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure
        producer = self._producer()
        for topic, name in self.topics.items():
            for partition in range(topic.partitions):
                _produce(producer, name, _heartbeat(END, partition))
        _flush(producer)

    def abandon(self) -> None:
        """Ends publishing early."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        begun, producer = time.monotonic(), self._producer()
        try:
            for number in range(self.ticks):
                if self._over.wait(max(begun + number * TICK_S - time.monotonic(), 0)):
                    return
                for topic, name in self.topics.items():
                    for record in tick(self.seed, number, topic):
                        _produce(producer, name, record)
                        self.sent += record.value is not None
                _flush(producer)
        except Exception as error:  # noqa: BLE001 raised by finish()
            self.failure = error

    def _producer(self) -> Producer:
        timeout = {"message.timeout.ms": _AWAY_S * 1000}
        return Producer(
            {"bootstrap.servers": self.kafka, "enable.idempotence": True, "linger.ms": 1, "log_level": 0, **timeout}
        )


def _produce(producer: Producer, topic: str, record: Input) -> None:
    if record.op == "heartbeat":
        headers = [("dsms-heartbeat", str(record.ts).encode())]
    else:
        headers = [("dsms-ts", str(record.ts).encode()), *([("dsms-op", b"-")] if record.op == "-" else [])]
    producer.produce(topic, record.value, partition=record.partition, headers=headers, on_delivery=_delivered)


def _delivered(error: object, _: object) -> None:
    assert error is None, error


def _flush(producer: Producer) -> None:
    assert producer.flush(_AWAY_S) == 0, f"kafka took no records for {_AWAY_S} s"

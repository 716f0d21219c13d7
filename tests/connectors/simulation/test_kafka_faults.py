"""Writers and readers over a simulated cluster that fails in all ways: each committed transaction is read once, whole
and in order, and the same seed gives the same events.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from connectors.kafka.client.topics import ensure_topic, latest, written
from connectors.kafka.records.column_writer import TransactionalWriter, transactional_writer
from connectors.kafka.records.range_reader import read_whole
from connectors.kafka.records.record_columns import Records
from connectors.native.library import library
from connectors.simulation.faults import Fault, Kind
from connectors.simulation.kafka.settings import SimulatedKafka
from operators.core.errors import DsmsError
from tests.support.simulated_kafka import Simulation, simulation

_KINDS: tuple[Kind, ...] = (
    "request lost",
    "answer lost",
    "request late",
    "slow",
    "leader moves",
    "broker restarts",
)
_TRANSACTIONS, _RECORDS, _PARTITIONS = 60, 6, 3
_TOPIC = "t"
_WRITERS = [True, False] if library() is not None else [False]


def faults(seed: int, count: int = 25) -> Iterator[Fault]:
    """Random faults, most of which hit requests of transactions."""
    chance = Random(seed)
    operations = ("", "Produce", "EndTxn", "InitProducerId", "AddPartitionsToTxn", "Metadata", "Fetch")
    for _ in range(count):
        kind = chance.choice(_KINDS)
        at, long = chance.uniform(0.0, 8.0), chance.random() < 0.2
        operation = chance.choice(operations)
        yield Fault(at, kind, "", operation, chance.uniform(2.0, 8.0) if long else chance.uniform(0.0, 0.5))


class Writing:
    """A writer that is created again when it must be, and whose transactions are repeated unless readers see them."""

    def __init__(self, simulated: Simulation, *, native: bool) -> None:
        self.simulated, self.native = simulated, native
        self.kafka = simulated.kafka("writer")
        self.writer: TransactionalWriter | None = None

    def write_all(self) -> None:
        """Writes all transactions, each once."""
        while True:
            try:
                ensure_topic(self.kafka.admin(), _TOPIC, _PARTITIONS)
                break
            except DsmsError:
                self.simulated.scheduler.sleep(0.1)
        number = 0
        while number < _TRANSACTIONS:
            try:
                if self.writer is None or self.writer.must_be_replaced:
                    self.writer = None  # if the next line fails
                    self.writer = transactional_writer(self.kafka, "id", native=self.native)
                    number = max(read(self.kafka, self.simulated), default=-1) + 1
                    continue
                self.write(self.writer, number)
                number += 1
            except DsmsError as error:
                self.simulated.scheduler.record(f"the writer: {error}")
                self.writer = None

    def write(self, writer: TransactionalWriter, number: int) -> None:
        """Writes one transaction."""
        writer.begin([_TOPIC])
        for at in range(_RECORDS):
            value = b"%d/%d" % (number, at)
            writer.write(Records(_TOPIC, [b"k"], [value], partitions=[at % _PARTITIONS]))
            if at % 2:
                writer.await_written()
        writer.commit()
        if writer.outcome_unknown and self.native and number not in read(self.kafka, self.simulated):
            raise AssertionError(f"transaction {number} was lost")


def read(kafka: SimulatedKafka, simulated: Simulation) -> dict[int, int]:
    """The transactions that readers see, each with the number of its records."""
    found: dict[int, int] = {}
    for value in values(kafka, simulated):
        number = int(value.split(b"/")[0])
        found[number] = found.get(number, 0) + 1
    return found


def values(kafka: SimulatedKafka, simulated: Simulation) -> list[bytes]:
    """Waits until no transaction is open, and returns all values in the order of each partition."""
    admin, places = kafka.admin(), [(_TOPIC, partition) for partition in range(_PARTITIONS)]
    while True:
        try:
            ends = latest(admin, places)
            if len(ends) == _PARTITIONS and ends == written(admin, places):
                ranges = [(partition, 0, end) for (_, partition), end in ends.items()]
                return [message.value() or b"" for message in read_whole(kafka, _TOPIC, ranges)]
        except DsmsError as error:
            simulated.scheduler.record(f"the reader: {error}")
        simulated.scheduler.sleep(0.1)


@pytest.mark.parametrize("native", _WRITERS, ids=lambda native: "columns" if native else "messages")
@pytest.mark.parametrize("version", [2, 1], ids=["kip-890", "before"])
@pytest.mark.parametrize("seed", range(5))
def test_each_transaction_is_read_once_and_whole(native: bool, version: int, seed: int) -> None:
    with simulation(seed, faults(seed), transaction_version=version) as simulated:
        writing = Writing(simulated, native=native)
        simulated.run(writing.write_all, "writer")
        found = simulated.run(lambda: values(simulated.kafka("reader"), simulated), "reader")
    expected = [b"%d/%d" % (n, at) for part in range(_PARTITIONS) for n in range(_TRANSACTIONS)
                for at in range(part, _RECORDS, _PARTITIONS)]  # fmt: skip
    assert found == expected
    assert sum(simulated.cluster.network.plan.happened.values()) > 5

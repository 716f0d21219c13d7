"""A network delivers a transactional request late, during a later transaction of the same writer. The simulated brokers
show what real ones do (`integration/test_late_requests.py`): no transaction is lost, torn or doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from connectors.kafka.client.topics import ensure_topic, latest, written
from connectors.kafka.records.column_writer import TransactionalWriter, transactional_writer
from connectors.kafka.records.range_reader import read_whole
from connectors.kafka.records.record_columns import Records
from connectors.native.library import missing
from connectors.simulation.faults import Fault, FaultPlan
from connectors.simulation.kafka.describe import kind_of
from operators.core.errors import DsmsError
from tests.support.simulated_kafka import Simulation, simulation

_SIZE, _COUNT = 100, 4
_TOPIC = "late"


@pytest.fixture(params=[2, 1], ids=["kip-890", "before"])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[True, False], ids=["verified", "unverified"])
def verification(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=["columns", "messages"])
def native(request: pytest.FixtureRequest) -> bool:
    if request.param == "columns" and (why := missing()):
        pytest.skip(why)
    return bool(request.param == "columns")


@dataclass
class Writing:
    """A writer that may crash and be replaced, and the expected content of its topic."""

    simulated: Simulation
    native: bool
    expected: list[bytes] = field(default_factory=list)
    number: int = 0
    writer: TransactionalWriter | None = None

    def start(self) -> None:
        """Starts a writer. A previous one is abandoned in the state in which a crash would leave it."""
        if self.writer is None:
            ensure_topic(self.simulated.kafka("reader").admin(), _TOPIC, 2, {"max.message.bytes": "20000000"})
        else:
            self.simulated.cluster.network.cut_process(self.simulated.processes["writer"])
        self.writer = transactional_writer(self.simulated.kafka("writer"), "id", native=self.native)

    def write(self) -> list[bytes]:
        """Begins a transaction with several produce requests to each of two partitions. Returns the values."""
        assert self.writer is not None
        chance = self.simulated.scheduler.random
        values = [b"%d/%d " % (self.number, at) + chance.randbytes(_SIZE) for at in range(_COUNT)]
        self.number += 1
        self.writer.begin([_TOPIC])
        for at, value in enumerate(values):
            self.writer.write(Records(_TOPIC, [b"k"], [value], partitions=[at % 2]))
            self.writer.await_written()  # so that several requests are sent
        return values

    def commit(self) -> None:
        """Writes and commits a transaction. If that fails, a new writer repeats it, unless readers see it."""
        while True:
            values: list[bytes] = []
            try:
                values = self.write()
                assert self.writer is not None
                self.writer.commit()
            except DsmsError:
                self.start()
                if not set(names(values)) & set(self.read()):
                    continue
            self.expected += values
            return

    def read(self) -> list[bytes]:
        """Waits until no transaction is open, and returns the names of the values that readers see."""
        settings, places = self.simulated.kafka("reader"), [(_TOPIC, partition) for partition in (0, 1)]
        admin, deadline = settings.admin(), self.simulated.scheduler.now + 10
        while latest(admin, places) != written(admin, places):
            assert self.simulated.scheduler.now < deadline, "a transaction stays open"
            self.simulated.scheduler.sleep(0.05)
        ends = latest(admin, places)
        read = read_whole(settings, _TOPIC, [(partition, 0, end) for (_, partition), end in ends.items()])
        return names(value for message in read if (value := message.value()))

    def check(self) -> None:
        """Checks that readers see each committed transaction completely and once."""
        assert self.read() == names(self.expected)


def names(values: Iterable[bytes]) -> list[bytes]:
    return sorted(value.split(b" ", 1)[0] for value in values)


def before(simulated: Simulation, kind: str, number: int, act: Callable[[], object]) -> None:
    """Calls `act` just before a broker gets the request of a kind with this number, counted from now on."""
    seen = 0
    for broker in simulated.cluster.brokers.values():

        def handle(request, client, respond, handle=broker.handle):
            nonlocal seen
            if kind_of(request) == kind and client == "writer":
                seen += 1
                if seen == number + 1:
                    act()
            handle(request, client, respond)

        broker.handle = handle


@pytest.mark.parametrize(
    ("kind", "number"),
    [("EndTxn", 0), ("EndTxn", 1), ("Produce", 1), ("AddPartitionsToTxn", 0)],
    ids=["end, before the first", "end, between two", "produce, between two", "add, before the first"],
)
def test_a_request_that_comes_in_the_next_transaction(
    version: int, verification: bool, native: bool, kind: str, number: int
) -> None:
    with simulation(transaction_version=version, verification=verification) as simulated:
        deliver_in_the_next_transaction(simulated, native, kind, number)


def deliver_in_the_next_transaction(simulated: Simulation, native: bool, kind: str, number: int) -> None:
    writing, network = Writing(simulated, native), simulated.cluster.network

    def scenario() -> None:
        writing.start()
        writing.commit()
        network.plan = FaultPlan([Fault(0, "request late", "writer", kind, for_s=1e6)])
        writing.commit()
        if not network.late:
            return  # the brokers add partitions by themselves
        before(simulated, "Produce", number, network.late[0].deliver)
        writing.commit()
        assert not network.late
        writing.check()
        writing.write()  # the writer crashes in this transaction; its successor ends it and continues
        writing.start()
        writing.check()
        writing.commit()
        writing.check()

    simulated.run(scenario, "writer")


def test_without_a_new_epoch_a_late_commit_tears_the_next_transaction(verification: bool) -> None:
    """Shows that the simulation has the fault against which the writers guard."""
    with simulation(transaction_version=1, verification=verification) as simulated:
        writing, network = Writing(simulated, native=False), simulated.cluster.network

        def scenario() -> list[bytes]:
            writing.start()
            producer = simulated.kafka("writer").producer(transactional_id="unguarded")
            producer.init_transactions(30)
            network.plan = FaultPlan([Fault(0, "request late", "writer", "EndTxn", for_s=1e6)])
            for value in (b"a", b"b"):
                producer.begin_transaction()
                producer.produce(_TOPIC, value, b"k", 0)
                producer.flush(30)
                if value == b"a":
                    producer.commit_transaction(30)
            network.late[0].deliver()
            return writing.read()

        assert simulated.run(scenario, "writer") == [b"a", b"b"]


@pytest.mark.parametrize("meets", ["Produce", "AddPartitionsToTxn"])
def test_a_late_request_arrives_with_the_next_one_that_it_meets(meets: str) -> None:
    with simulation(transaction_version=1) as simulated:
        writing = Writing(simulated, native=False)

        def scenario() -> None:
            writing.start()
            writing.commit()
            simulated.cluster.network.plan = FaultPlan(
                [Fault(0, "request late", "writer", "EndTxn", for_s=1e6, meets=meets)]
            )
            writing.commit()
            assert [late.meets for late in simulated.cluster.network.late] == [meets]
            writing.commit()
            assert not simulated.cluster.network.late
            writing.check()

        simulated.run(scenario, "writer")


def test_a_process_is_struck_while_its_request_is_on_its_way() -> None:
    with simulation() as simulated:
        writing, network = Writing(simulated, native=False), simulated.cluster.network
        struck = []

        def scenario() -> None:
            writing.start()
            network.plan = FaultPlan([Fault(0, "kill", "writer", "EndTxn", for_s=1.0)])
            network.plan.strike = lambda fault: struck.append((fault.kind, simulated.scheduler.trace.last))
            writing.commit()

        simulated.run(scenario, "writer")
        ((kind, event),) = struck
        assert kind == "kill"
        assert "EndTxn" in event

"""What a simulated cluster does besides answering: it fails, removes records, and its brokers learn of changes late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.metadata import MetadataRequest

from connectors.kafka.client.attempts import Attempts
from connectors.kafka.client.connections import Unanswered
from connectors.kafka.client.identities import cluster_id
from connectors.kafka.client.topics import COMPACTED, ensure_topic, latest, partitions_of, written
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.publish import Outgoing, Publisher
from connectors.kafka.records.range_reader import OffsetRange, RangeReader, read_whole
from connectors.kafka.records.record_columns import Records
from connectors.simulation.faults import Fault
from connectors.simulation.kafka.cleaning import compact
from connectors.simulation.kafka.cluster import clean
from connectors.simulation.kafka.network import Delays
from connectors.simulation.kafka.settings import SimulatedKafka
from operators.core.errors import ExternalError, Fenced
from tests.support.simulated_kafka import Simulation, simulation

_ALL = MetadataRequest(topics=None, allow_auto_topic_creation=False)


def over_a_cluster(
    scenario: Callable[[Simulation, SimulatedKafka], Any], *faults: Fault, seed: int = 1, **settings: Any
) -> list[str]:
    """Runs a scenario as a task of a process; returns the trace."""
    with simulation(seed, faults, **settings) as simulated:
        simulated.run(lambda: scenario(simulated, simulated.kafka()))
        return simulated.events


def write_some(simulated: Simulation, kafka: SimulatedKafka) -> None:
    ensure_topic(kafka.admin(), "t", 2)
    for native in (True, False):
        writer = transactional_writer(kafka, f"id-{native}", native=native)
        for number in range(5):
            while writer.must_be_replaced:
                writer = transactional_writer(kafka, f"id-{native}", native=native)
            writer.begin(["t"])
            writer.write(Records("t", [None] * 3, [b"%d" % number] * 3))
            writer.commit()
    admin, places = kafka.admin(), [("t", 0), ("t", 1)]
    while latest(admin, places) != written(admin, places):
        simulated.scheduler.sleep(0.01)
    ranges = [(partition, 0, end) for (_, partition), end in latest(admin, places).items()]
    assert len(read_whole(kafka, "t", ranges)) == 30


def test_the_same_seed_gives_the_same_events() -> None:
    faults = [Fault(0.3, "answer lost", "client", "EndTxn"), Fault(0.4, "broker restarts", "kafka-2", "", 4.0)]
    traces = [over_a_cluster(write_some, *faults, seed=seed) for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]
    assert sum(": EndTxn" in event for event in traces[0]) > 10


def test_a_writer_that_is_fenced_as_it_begins_must_be_replaced() -> None:
    """After a lost answer it requests a new epoch, which a newer owner prevents for ever."""

    def scenario(_: Simulation, kafka: SimulatedKafka) -> None:
        ensure_topic(kafka.admin(), "t", 1)
        writer = transactional_writer(kafka, "id")
        writer.begin(["t"])
        writer.write(Records("t", [None], [b"1"]))
        writer.commit()
        transactional_writer(kafka, "id")
        assert writer.outcome_unknown and not writer.must_be_replaced
        with pytest.raises(Fenced):
            writer.begin(["t"])
        assert writer.must_be_replaced

    over_a_cluster(scenario, Fault(0.0, "answer lost", "client", "EndTxn"), transaction_version=1)


@pytest.mark.parametrize(
    ("kind", "gets_it"), [("request lost", 0), ("answer lost", 1), ("request late", 1)], ids=["lost", "answer", "late"]
)
def test_a_connection_is_cut_before_or_after_the_request_arrives(kind: Any, gets_it: int) -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        connections = kafka.connections()
        future = connections.send(1, _ALL)
        with pytest.raises(KafkaConnectionError):
            connections.wait(future, 10)
        assert simulated.scheduler.now < 1
        simulated.scheduler.sleep(10)
        assert connections.wait(connections.send(1, _ALL), 10).brokers

    trace = over_a_cluster(scenario, Fault(0.0, kind, "client", "Metadata", 5.0))
    assert sum("kafka-1 answers client: Metadata" in event for event in trace) == gets_it + 1
    assert sum("late from client" in event for event in trace) == (kind == "request late")


def test_a_slow_answer_delays_those_after_it() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        connections = kafka.connections()
        slow, next_ = connections.send(1, _ALL), connections.send(1, _ALL)
        connections.wait(next_, 10)
        assert slow.is_done
        assert 5 < simulated.scheduler.now < 6

    over_a_cluster(scenario, Fault(0.0, "slow", "kafka-1", "Metadata", 5.0))


def test_a_connection_whose_request_is_not_answered_in_time_is_replaced() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        connections = kafka.connections()
        silent, other = connections.send(1, _ALL), connections.send(2, _ALL)
        assert connections.wait(other, 10).brokers
        with pytest.raises(Unanswered, match="kafka did not answer within 10 s"):
            connections.wait(silent, 10)
        assert isinstance(silent.exception, KafkaConnectionError)
        assert connections.wait(connections.send(1, _ALL), 10).brokers
        assert simulated.scheduler.now < 11

    over_a_cluster(scenario, Fault(0.0, "slow", "kafka-1", "Metadata", 60.0))


def test_an_attempt_is_repeated_if_no_answer_comes_in_time() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        connections = kafka.connections()
        attempts = Attempts(connections)
        assert attempts.retry(lambda _: attempts.answer(connections.send(1, _ALL)), "asking").brokers
        assert attempts.lost
        assert 30 < simulated.scheduler.now < 31

    over_a_cluster(scenario, Fault(0.0, "slow", "kafka-1", "Metadata", 60.0))


def test_a_killed_process_has_no_connections_but_what_it_sent_arrives() -> None:
    with simulation(latency := 3) as simulated:
        kafka, scheduler = simulated.kafka("victim"), simulated.scheduler
        done: list[str] = []

        def write() -> None:
            ensure_topic(kafka.admin(), "t", 1)
            writer = transactional_writer(kafka, "id", native=False)
            writer.begin()
            writer.write(Records("t", [b"k"], [b"v"]))
            writer.await_written()
            done.append("written")
            writer.commit()
            done.append("committed")

        scheduler.spawn(write, "writer", simulated.processes["victim"])
        scheduler.run_until(100, lambda: "victim to kafka" in scheduler.trace.last and "EndTxn" in scheduler.trace.last)
        scheduler.kill(simulated.processes["victim"])
        simulated.sleep(latency)
        assert done == ["written"]
        ends = simulated.run(lambda: latest(simulated.kafka().admin(), [("t", 0)]))
        assert ends == {("t", 0): 2}  # the record and the marker of the commit


def test_brokers_learn_of_new_topics_and_leaders_late() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        admin, cluster = kafka.admin(), simulated.cluster
        cluster.create_topic("t", 1, {})
        counts = [len(partitions_of(admin, "t")) for _ in range(30)]
        assert set(counts) == {0, 1}
        simulated.scheduler.sleep(1)
        connections = kafka.connections()
        leader = connections.leader("t", 0)
        assert leader is not None
        cluster.move_leaders(leader)
        assert connections.leader("t", 0) == leader
        seen = [connections.leader("t", 0, refreshed=True) for _ in range(100)]
        assert seen[-1] != leader
        assert len(set(seen)) == 2

    over_a_cluster(scenario, propagation_s=(0.01, 0.05), delays=Delays((0.0001, 0.001), (0.001, 0.002)))


def test_partitions_of_a_broker_that_stays_away_move_to_others() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        admin, cluster = kafka.admin(), simulated.cluster
        ensure_topic(admin, "t", 1)
        leader = cluster.image.topics["t"].leaders[0].broker
        cluster.restart(leader, 30.0)
        publisher = Publisher(kafka, "t")
        publisher.send(Outgoing(b"k", b"v"))
        publisher.flush()
        assert 3 < simulated.scheduler.now < 10
        assert cluster.image.topics["t"].leaders[0].broker != leader

    over_a_cluster(scenario)


def test_a_lone_broker_that_restarts_keeps_everything() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        write_some(simulated, kafka)
        simulated.cluster.restart(1, 20.0)
        with pytest.raises(ExternalError):
            partitions_of(kafka.admin(), "t")
        simulated.scheduler.sleep(15)
        assert sum(latest(kafka.admin(), [("t", 0), ("t", 1)]).values()) > 30

    over_a_cluster(scenario, brokers=1)


def test_compaction_keeps_the_last_committed_record_of_each_key() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        ensure_topic(kafka.admin(), "t", 1, COMPACTED)
        writer = transactional_writer(kafka, "id", native=False)
        for number in range(4):
            writer.begin()
            writer.write(Records("t", [b"a", b"b%d" % number], [b"%d" % number] * 2, [[("h", b"x")]] * 2))
            if number == 3:
                writer.abort()
            else:
                writer.commit()
        log = simulated.cluster.log(simulated.cluster.image.topics["t"], 0)
        while log.stable != log.end:
            simulated.scheduler.sleep(0.01)
        before = log.end
        compact(log)
        read = read_whole(kafka, "t", [(0, 0, before)])
        assert [(each.offset(), each.key(), each.value()) for each in read] == [
            (1, b"b0", b"0"),
            (4, b"b1", b"1"),
            (6, b"a", b"2"),
            (7, b"b2", b"2"),
        ]
        assert read[0].headers() == [("h", b"x")]
        assert log.end == before
        compact(log)
        assert read_whole(kafka, "t", [(0, 0, before)])[0].offset() == 1

    over_a_cluster(scenario)


def test_retention_removes_old_records() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        ensure_topic(kafka.admin(), "t", 1, {"retention.ms": "60000"})
        publisher = Publisher(kafka, "t")
        for _ in range(2):
            publisher.send(Outgoing(b"k", b"v"))
            publisher.flush()
            simulated.scheduler.sleep(50)
        topic = simulated.cluster.image.topics["t"]
        clean(simulated.cluster.log(topic, 0), topic, simulated.cluster.now_ms())
        reader = RangeReader(kafka)
        (error,) = reader.read([OffsetRange("t", 0, 0, 2)])[0]
        assert "offsets 0 to 0" in str(error)

    over_a_cluster(scenario, cleaning_s=(1e6, 1e6))


def test_answers_to_more_than_the_quota_are_delayed() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        ensure_topic(kafka.admin(), "t", 1, {"max.message.bytes": "9999999"})
        publisher = Publisher(kafka, "t")
        publisher.send(Outgoing(b"k", b"v" * 500_000))
        publisher.flush()
        assert 4 < simulated.scheduler.now < 6

    over_a_cluster(scenario, write_quota=100_000)


def test_a_transactional_producer_reports_lost_connections_in_its_log() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        ensure_topic(kafka.admin(), "t", 1)
        writer = transactional_writer(kafka, "id", native=False)
        assert not writer.outcome_unknown
        writer.begin()
        writer.write(Records("t", [b"k"], [b"v"]))
        writer.commit()
        assert writer.outcome_unknown

    over_a_cluster(scenario, Fault(0.0, "answer lost", "client", "EndTxn"))


def test_a_fault_of_one_kind_happens_once() -> None:
    with simulation(faults=[Fault(0.0, "answer lost", "client", "Metadata")]) as simulated:
        kafka = simulated.kafka()
        simulated.run(lambda: ensure_topic(kafka.admin(), "t", 1))
        assert simulated.cluster.network.plan.happened == {"answer lost": 1}


def test_the_first_request_to_a_broker_that_has_returned_is_answered() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        simulated.cluster.restart(1, 10.0)
        while simulated.scheduler.now < 11:
            with suppress(ExternalError):
                assert cluster_id(kafka.admin()) == simulated.cluster.id

    for seed in range(5):
        over_a_cluster(scenario, seed=seed, brokers=1, propagation_s=(0.1, 1.0))

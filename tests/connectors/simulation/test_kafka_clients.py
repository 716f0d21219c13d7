"""The readers, writers and logs of `connectors.kafka` run unchanged over a simulated cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.identities import cluster_id
from connectors.kafka.client.names import CATALOG, HEARTBEATS, internal_topic
from connectors.kafka.client.retention import retention_of
from connectors.kafka.client.topic_settings import restore_settings, wrong_settings
from connectors.kafka.client.topics import COMPACTED, SOURCE, delete_topic, ensure_topic, latest
from connectors.kafka.logs.dead_letters import DeadLetter, DeadLetterLog, ReplayMark
from connectors.kafka.logs.follow import Arrival, Follower
from connectors.kafka.logs.heartbeats import HeartbeatLog
from connectors.kafka.logs.internal_log import InternalLog, undecoded
from connectors.kafka.logs.log_appender import LogAppender
from connectors.kafka.logs.replays import Replayed, ReplayTarget, ReplayWriter
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.log_reader import LogReader
from connectors.kafka.records.publish import Outgoing, Publisher
from connectors.kafka.records.range_reader import OffsetRange, read_whole
from connectors.kafka.records.record_columns import Records
from connectors.native.library import library
from connectors.simulation.kafka.settings import SimulatedKafka
from operators.core.clock import Heartbeat
from operators.core.errors import ExternalError, Fenced, UserError
from tests.support.simulated_kafka import Simulation, simulation

_NATIVE = [True, False] if library() is not None else [False]


def over_a_cluster(scenario: Callable[[Simulation, SimulatedKafka], Any], seed: int = 1, **settings: Any) -> Any:
    """Runs a scenario as a task of a process."""
    with simulation(seed, **settings) as simulated:
        return simulated.run(lambda: scenario(simulated, simulated.kafka()))


def test_settings_are_equal_only_to_themselves_and_stay_so_when_pickled() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        other = simulated.kafka()
        assert kafka != other
        assert len({kafka, other}) == 2
        assert pickle.loads(pickle.dumps(kafka)) is kafka
        assert kafka.with_properties({"a": "b"}).properties == {"a": "b"}

    over_a_cluster(scenario)


def test_real_settings_with_equal_parts_are_one_key_of_a_cache() -> None:
    settings = [KafkaSettings("k:9092", {"sasl.username": "ann"}) for _ in range(2)]
    assert len({*settings, KafkaSettings("k:9092")}) == 2


@pytest.mark.parametrize("native", _NATIVE, ids=lambda native: "columns" if native else "messages")
def test_both_readers_read_what_both_writers_write(native: bool) -> None:
    def scenario(_: Simulation, kafka: SimulatedKafka) -> None:
        ensure_topic(kafka.admin(), "t", 1)
        writer = transactional_writer(kafka, "id", native=native)
        for number in range(3):
            writer.begin(["t"])
            values = [b"%d" % (10 * number + at) for at in range(10)]
            writer.write(Records("t", [b"k"] * 10, values, [[("h", value)] for value in values]))
            writer.commit()
        writer.close()
        publisher = Publisher(kafka, "t")
        publisher.send(Outgoing(None, b"30"))
        assert publisher.heartbeat(7) == 1
        assert publisher.delivered == 1
        for reads_columns in _NATIVE:
            reader = LogReader(kafka, native=reads_columns)
            ranges = [OffsetRange("t", 0, 5, 20), OffsetRange("t", 0, 20, 35)]
            pieces = [piece for wanted in ranges for piece in reader.read([wanted])[0]]
            assert (
                b"".join(value or b"-" for piece in pieces for value in piece.values())
                == b"".join(b"%d" % number for number in range(5, 31)) + b"-"
            )
            reader.close()

    over_a_cluster(scenario)


def test_a_log_is_appended_to_read_and_cut_over() -> None:
    def scenario(_: Simulation, kafka: SimulatedKafka) -> None:
        alarms = Alarms()
        log = InternalLog(kafka, "main", CATALOG, alarms, "1")
        assert list(log.read(undecoded)) == []
        ensure_topic(log.admin, log.topic, 1, COMPACTED)
        writer = transactional_writer(kafka, "catalog")
        log.append(writer, [b"a", b"b"], [b"1", b"2"])
        cut_over = log.missing_cut_over()
        assert cut_over is not None
        writer.begin()
        writer.write(cut_over)
        writer.commit()
        log.append(writer, [b"a"], [b"3"])
        entries = list(log.read(undecoded, decided=True))
        assert [(entry.key, entry.value, entry.writer) for entry in entries] == [
            (b"a", b"1", "1"),
            (b"b", b"2", "1"),
            (b"a", b"3", "1"),
        ]
        assert log.missing_cut_over() is None
        foreign = transactional_writer(kafka, "foreign")
        foreign.begin()
        foreign.write(Records(log.topic, [b"c"], [b"4"]))
        foreign.commit()
        assert len(list(log.read(undecoded, decided=True))) == 3
        assert [alarm.count for alarm in alarms.all()] == [1]
        newer = transactional_writer(kafka, "catalog")
        with pytest.raises(Fenced):
            log.append(writer, [b"a"], [b"5"])
        newer.close()
        appender = LogAppender(kafka, InternalLog(kafka, "main", CATALOG, alarms, "2"))
        with pytest.raises(ExternalError, match="cannot write"):
            appender.append_now(b"a record without a key in a compacted topic")

    over_a_cluster(scenario)


def test_fragments_agree_on_heartbeats() -> None:
    place = ("o1", 0)

    def scenario(_: Simulation, kafka: SimulatedKafka) -> None:
        ensure_topic(kafka.admin(), internal_topic("main", HEARTBEATS), 1, COMPACTED)
        logs = [HeartbeatLog(kafka, "main", name, Alarms()) for name in ("0", "1")]
        for log in (*logs, *logs):
            log.follow(["o1"])
        logs[0].promise({"o1": {0: Heartbeat(7, 900)}}, lambda wanted: dict.fromkeys(wanted, 7))
        logs[0].promise({"o1": {0: Heartbeat(9, 950)}}, lambda wanted: dict.fromkeys(wanted, 8))
        logs[1].follow(["o1"])
        assert [log.known for log in logs] == [{place: [Heartbeat(7, 900)]}] * 2

    over_a_cluster(scenario)


def test_a_follower_sees_committed_records_as_they_come() -> None:
    with simulation() as simulated:
        kafka = simulated.kafka()

        def publish() -> list[Any]:
            ensure_topic(kafka.admin(), "t", 2)
            simulated.scheduler.sleep(2)
            publisher = Publisher(kafka, "t")
            for number in range(5):
                publisher.send(Outgoing(b"%d" % number, b"v", ts=number))
                simulated.scheduler.sleep(0.5)
            publisher.flush()
            return []

        def follow() -> list[Any]:
            simulated.scheduler.sleep(1)
            with Follower(kafka, "t") as follower:
                arrivals = (each for each in follower.arrivals() if isinstance(each, Arrival))
                return sorted((each.key, each.ts) for each in islice(arrivals, 5))

        assert simulated.run_all([publish, follow])[1] == [(b"%d" % number, number) for number in range(5)]


def test_replays_and_dead_letters() -> None:
    def scenario(_: Simulation, kafka: SimulatedKafka) -> None:
        admin = kafka.admin()
        for name in ("t", "letters"):
            ensure_topic(admin, name, 1)
        publisher = Publisher(kafka, "t")
        publisher.send(Outgoing(b"k", b"wrong"))
        publisher.flush()
        (message,) = read_whole(kafka, "t", [(0, 0, 1)])
        letter = DeadLetter("t", 0, 0, "wrong", None, b"wrong")
        with ReplayWriter(kafka, "main") as writer:
            writer.write(ReplayTarget("t", "id", "letters"), [Replayed(letter, message, b"right")], stamped=True)
        log = DeadLetterLog(kafka, admin, "letters", Alarms())
        assert [mark for marks in log.replayed() for mark in marks] == [ReplayMark("id", 0, 0)]
        end = latest(admin, [("t", 0)])["t", 0]
        assert [message.value() for message in read_whole(kafka, "t", [(0, 0, end)])] == [b"wrong", b"right"]

    over_a_cluster(scenario)


def test_topics_have_settings_and_the_cluster_an_id() -> None:
    def scenario(simulated: Simulation, kafka: SimulatedKafka) -> None:
        admin = kafka.admin()
        ensure_topic(admin, "t", 1)
        assert retention_of(admin, "t")["retention.ms"] == "604800000"
        assert wrong_settings(admin, "t", SOURCE) == {"retention.ms": "604800000"}
        restore_settings(admin, "t", SOURCE)
        simulated.scheduler.sleep(0.2)
        assert wrong_settings(admin, "t", SOURCE) == {}
        assert cluster_id(admin) == simulated.cluster.id
        with pytest.raises(UserError, match="not a valid topic name"):
            ensure_topic(admin, "a/b", 1)
        with pytest.raises(UserError, match='topic "none" not found'):
            Publisher(kafka, "none")
        delete_topic(admin, "t")

    over_a_cluster(scenario)

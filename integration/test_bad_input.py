"""Refused records, poisoned queries and wrong statements are all reported, and do not harm other queries."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Message, Producer

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.pieces import decided_ranges
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused, running
from integration.kafka_log import Input, advance, changes, letters, read_committed, write
from integration.kafka_topics import create_topic

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_executor(fault="poison:Poisoned")
        yield cluster


def decided(cluster: Cluster, topic: str) -> list[Message]:
    """The committed records of a topic, also those whose commit was answered before the topic had its marker."""
    decided_ranges(KafkaSettings(cluster.kafka).admin(), topic)
    return read_committed(cluster.kafka, topic)


def values(kafka: str, topic: str) -> list[tuple[object, int]]:
    return [(json.loads(change.value or b"null"), change.ts) for change in changes(kafka, topic)]


def test_refused_records_are_dead_letters(cluster: Cluster, unique: str):
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (k VARCHAR NOT NULL, v INT) FROM "{unique}.t" PARTITIONS 2 SLACK 2 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY NULL;
        CREATE STREAMED VIEW {unique}Div AS SELECT k, 12 / v AS q FROM R({unique}S);
        CREATE STREAMED VIEW {unique}All AS SELECT k, v FROM R({unique}S)
    """)
    bad = [b"\xff\x00", b'{"k": "a", "v": "x"}', b'{"v": 1}']
    good = [Input(b'{"k":"a","v":4}', 10), Input(b'{"k":"b","v":0}', 11)]
    late = Input(b'{"k":"late","v":1}', 5)
    write(cluster.kafka, f"{unique}.t", [*good, *(Input(value, 12) for value in bad), late])
    write(cluster.kafka, f"{unique}.t", [Input(b'{"k":"c","v":3}', 12, partition=1)])
    advance(cluster.kafka, f"{unique}.t", 20, 2)
    cluster.await_frontier([f"dsms.{unique}{view}" for view in ("Div", "All")], 20)
    assert values(cluster.kafka, f"dsms.{unique}Div") == [({"k": "a", "q": 3}, 10), ({"k": "c", "q": 4}, 12)]
    assert values(cluster.kafka, f"dsms.{unique}All") == [
        ({"k": "a", "v": 4}, 10), ({"k": "b", "v": 0}, 11), ({"k": "c", "v": 3}, 12),
    ]  # fmt: skip
    by_offset = {dict(letter.headers)["dsms-offset"]: letter for letter in letters(cluster.kafka, f"{unique}T")}
    assert [by_offset[str(offset)].value for offset in range(1, 6)] == [good[1].value, *bad, late.value]
    assert len(by_offset) == len(letters(cluster.kafka, f"{unique}T")) == 5
    for offset, reason, query in (
        ("1", "division by zero", f"{unique}Div"),
        ("5", "late", None),
        ("4", "NOT NULL", None),
    ):
        headers = dict(by_offset[offset].headers)
        assert reason in headers["dsms-error"]
        assert headers.get("dsms-query") == query
        provenance = {name: headers[name] for name in ("dsms-source", "dsms-topic", "dsms-partition")}
        assert provenance == {"dsms-source": f"{unique}T", "dsms-topic": f"{unique}.t", "dsms-partition": "0"}
    listed = cluster.get(f"sources/{unique}T/dead-letters")
    assert sorted(letter["offset"] for letter in listed) == [1, 2, 3, 4, 5]
    assert wait_until(lambda: cluster.get(f"sources/{unique}T")["state"] == "registered, 5 dead letters", 120)


def test_refused_records_are_replayed_once(cluster: Cluster, unique: str):
    """Replayed records keep their key, headers and partition. Their dead letters stay, marked as replayed."""
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (k VARCHAR NOT NULL, v INT) FROM "{unique}.t" PARTITIONS 2 SLACK 2 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY NULL;
        CREATE STREAMED VIEW {unique}V AS SELECT k, v FROM R({unique}S)
    """)
    write(cluster.kafka, f"{unique}.t", [Input(b'{"k":"a","v":4}', 10), Input(b'{"k":"a","v":"N/A"}', 11)])
    write(cluster.kafka, f"{unique}.t", [Input(b"{", 12, partition=1), Input(b'{"k":"b","v":"N/A"}', 13, partition=1)])
    listed = f"sources/{unique}T/dead-letters"
    assert wait_until(lambda: len(cluster.get(listed)) == 3, 120)
    again = f"""REPLAY DEAD LETTERS OF {unique}T SET value = replace(value, '"N/A"', 'null') WHERE value LIKE '%N/A%'"""
    assert cluster.sql(again)[0]["message"] == f'2 records written to topic "{unique}.t" again'
    assert cluster.sql(again)[0]["message"].startswith("0 records")
    advance(cluster.kafka, f"{unique}.t", 20, 2)
    cluster.await_frontier(f"dsms.{unique}V", 20)
    assert values(cluster.kafka, f"dsms.{unique}V") == [
        ({"k": "a", "v": 4}, 10), ({"k": "a", "v": None}, 11), ({"k": "b", "v": None}, 13),
    ]  # fmt: skip
    assert {(letter["value"], letter["replayed"]) for letter in cluster.get(listed)} == {
        ('{"k":"a","v":"N/A"}', True), ('{"k":"b","v":"N/A"}', True), ("{", False),
    }  # fmt: skip
    marked = [message for message in decided(cluster, f"{unique}.t") if len(message.headers() or []) == 2]
    assert sorted((message.partition(), *message.headers()) for message in marked) == [
        (0, ("dsms-ts", b"11"), ("dsms-replay-of", b"0/1")), (1, ("dsms-ts", b"13"), ("dsms-replay-of", b"1/1")),
    ]  # fmt: skip
    (result,) = cluster.sql(f"""REPLAY DEAD LETTERS OF {unique}T SET value = '{{"k":"c","v":1}}'""")
    assert result["message"].startswith("1 record written")
    assert wait_until(lambda: len(cluster.get(listed)) == 4, 120), "its instant has passed"
    (result,) = cluster.sql(f"REPLAY DEAD LETTERS OF {unique}T")
    assert result["message"].startswith("0 records")
    assert "1 not replayed: they would be late again" in result["notices"][0]
    with pytest.raises(Refused, match="is a view, not a source"):
        cluster.sql(f"REPLAY DEAD LETTERS OF {unique}V")


def test_replayed_records_equal_the_refused_records(cluster: Cluster, unique: str):
    """A deletion stays a deletion, and a record without an instant keeps its timestamp. The dead letters of an earlier
    source of the same name are not replayed."""
    register = f"""
        REGISTER SOURCE {unique}T (k VARCHAR NOT NULL, v INT) FROM "{unique}.t" PARTITIONS 1
            SLACK 1000 SECONDS IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY k;
        CREATE STREAMED VIEW {unique}V AS SELECT k, v FROM R({unique}S)
    """
    cluster.sql(register)
    now = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": cluster.kafka, "enable.idempotence": True})
    producer.produce(f"{unique}.t", b'{"k":"a","v":1}', b"x", headers=[("dsms-ts", str(now).encode())])
    producer.produce(f"{unique}.t", None, b'{"k":"a"}', headers=[("dsms-op", b"-"), ("dsms-ts", b"?")])
    producer.produce(f"{unique}.t", b'{"k":"b","v":"x"}', b"y", timestamp=now + 5, headers=[("other", b"1")])
    assert producer.flush(30) == 0
    listed = f"sources/{unique}T/dead-letters"
    assert wait_until(lambda: len(cluster.get(listed)) == 2, 120)
    again = f"""REPLAY DEAD LETTERS OF {unique}T SET value = replace(value, '"x"', '2')"""
    (result,) = cluster.sql(again)
    assert result["message"].startswith("1 record written")
    assert any("1 not replayed: they have no value" in notice for notice in result["notices"])
    (result,) = cluster.sql(f"REPLAY DEAD LETTERS OF {unique}T")
    assert result["message"].startswith("1 record written")
    written = [(message.key(), message.value(), message.headers()) for message in decided(cluster, f"{unique}.t")]
    assert written[3:] == [
        (b"y", b'{"k":"b","v":2}', [("other", b"1"), ("dsms-ts", str(now + 5).encode()), ("dsms-replay-of", b"0/2")]),
        (b'{"k":"a"}', None, [("dsms-op", b"-"), ("dsms-ts", b"?"), ("dsms-replay-of", b"0/1")]),
    ]
    advance(cluster.kafka, f"{unique}.t", now + 10)
    cluster.await_frontier(f"dsms.{unique}V", now + 10)
    assert values(cluster.kafka, f"dsms.{unique}V") == [({"k": "a", "v": 1}, now), ({"k": "b", "v": 2}, now + 5)]
    cluster.sql(f"DROP VIEW {unique}V; DROP STREAM {unique}S; DROP SOURCE {unique}T; {register}")
    assert wait_until(lambda: len(cluster.get(listed)) == 6, 120), "the new source refuses the same, and the copy"
    assert [letter["replayed"] for letter in cluster.get(listed)] == [True, True, False] * 2
    (result,) = cluster.sql(f"REPLAY DEAD LETTERS OF {unique}T")
    assert result["message"].startswith("1 record written"), "the deletion that was refused again"
    assert any("3 not replayed: an earlier source of this name" in notice for notice in result["notices"])
    cluster.sql(f'REGISTER SOURCE {unique}O (k VARCHAR) FROM "{unique}.t"')
    with pytest.raises(Refused, match=f'is read by source "{unique}O" too'):
        cluster.sql(f"REPLAY DEAD LETTERS OF {unique}T")


@pytest.mark.parametrize("key", ["k", "NULL"])
def test_poisoned_query_stops_and_others_continue(cluster: Cluster, unique: str, key: str):
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (k VARCHAR, v BIGINT) FROM "{unique}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY {key};
        CREATE STREAMED VIEW Poisoned AS SELECT k, v FROM R({unique}S);
        CREATE STREAMED VIEW {unique}Good AS SELECT k, v FROM R({unique}S)
    """)
    write(cluster.kafka, f"{unique}.t", [Input(b'{"k":"a","v":1}', 1)])
    advance(cluster.kafka, f"{unique}.t", 2)
    cluster.await_frontier(f"dsms.{unique}Good", 2)
    assert wait_until(lambda: cluster.get("queries/Poisoned")["state"].startswith("failed: "), 120)
    write(cluster.kafka, f"{unique}.t", [Input(b'{"k":"c","v":3}', 9)])
    advance(cluster.kafka, f"{unique}.t", 12)
    cluster.await_frontier(f"dsms.{unique}Good", 12)
    good_values = values(cluster.kafka, f"dsms.{unique}Good")
    assert good_values == [({"k": "a", "v": 1}, 1), ({"k": "c", "v": 3}, 9)]
    assert changes(cluster.kafka, "dsms.Poisoned") == []
    cluster.sql("DROP VIEW Poisoned")


def test_row_too_large_for_kafka_stops_only_its_query(cluster: Cluster, unique: str):
    """The record size limit that the topic had before it became a result topic has no effect."""
    create_topic(cluster.kafka, f"dsms.{unique}Fits", config={"max.message.bytes": "1000"})
    large = ", ".join(f"p AS p{number}" for number in range(67))  # each value fits, all of them together do not
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (k VARCHAR) FROM "{unique}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY k;
        CREATE STREAMED VIEW {unique}Fits AS SELECT k, LPAD(k, 1000000, 'x') AS p FROM R({unique}S);
        CREATE STREAMED VIEW {unique}Large AS SELECT k, {large} FROM {unique}Fits
    """)
    write(cluster.kafka, f"{unique}.t", [Input(b'{"k":"a"}', 1)])
    advance(cluster.kafka, f"{unique}.t", 2)
    cluster.await_frontier(f"dsms.{unique}Fits", 2)
    ((row, _),) = values(cluster.kafka, f"dsms.{unique}Fits")
    assert len(row["p"]) == 1_000_000
    assert wait_until(lambda: cluster.get(f"queries/{unique}Large")["state"].startswith("failed: "), 120)
    assert "67,000," in cluster.get(f"queries/{unique}Large")["state"]
    assert changes(cluster.kafka, f"dsms.{unique}Large") == []
    cluster.sql(f"DROP VIEW {unique}Large")


REFUSED = {
    "an unknown stream": ("SELECT STREAMED a FROM R({p}Nowhere)", "{p}Nowhere"),
    "an unknown column": ("SELECT STREAMED nothing FROM R({p}S)", "nothing"),
    "an unknown source": ("CREATE STREAM {p}X OVER {p}Nowhere KEY a", "{p}Nowhere"),
    "a missing topic": ('REGISTER SOURCE {p}X (a INT) FROM "{p}.nowhere"', 'topic "{p}.nowhere" does not exist'),
    "a taken name": ("CREATE STREAM {p}S OVER {p}T KEY a", 'a stream named "{p}S" already exists'),
    "a source in use": ("DROP SOURCE {p}T", "is used by {p}S"),
    "no statement": ("FROB x", '"FROB" does not start a statement'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_statement_has_one_clear_error(cluster: Cluster, unique: str, case: str):
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (a INT) FROM "{unique}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY a
    """)
    before = cluster.get("status")["catalog_version"]
    statement, says = REFUSED[case]
    with pytest.raises(Refused) as refused:
        cluster.sql(statement.format(p=unique))
    assert refused.value.status in (400, 404)
    assert says.format(p=unique) in refused.value.error["message"]
    assert cluster.get("status")["catalog_version"] == before

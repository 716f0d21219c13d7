"""The client on a real cluster: it reads back each record that it publishes, once, although connections are cut and
processes killed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import httpx
import polars as pl
import pytest

from dsms.client import (
    AsyncClient,
    Change,
    Client,
    NotCovered,
    NotFound,
    PositionGone,
    RecordRefused,
    Refused,
    ResultDropped,
    StatementError,
)
from dsms.local.redis_server import RedisServer
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.cutting_proxy import cutting
from integration.kafka_log import Input, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
#: Long enough for an executor to start.
START_S = 240.0


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.url) as client:
        yield client


@pytest.fixture
def source(client: Client, unique: str) -> str:
    """A new source with two views of the values above 80, in JSON and in Avro."""
    client.execute(f"""
        REGISTER SOURCE {unique} (room VARCHAR NOT NULL, t INT) FROM "{unique}" PARTITIONS 2 IDLE NEVER;
        CREATE STREAM {unique}s OVER {unique} KEY room;
        CREATE STREAMED VIEW {unique}hot AS SELECT room, t FROM R({unique}s) WHERE t > 80;
        CREATE STREAMED VIEW {unique}avro WITH (format = avro) AS SELECT room, t FROM R({unique}s) WHERE t > 80
    """)
    return unique


def rows(count: int, first: int = 0) -> list[dict[str, object]]:
    return [{"room": f"r{at % 7}", "t": 60 + at * 37 % 50, "ts": at + 1} for at in range(first, first + count)]


def stock(kafka: str, topic: str) -> list[tuple[int, str, object, int]]:
    """The changes of a JSON result as a standard consumer reads them: partition, operation, row or key, instant."""
    return [
        (change.partition, change.op, json.loads(change.value or change.key or b""), change.ts)
        for change in changes(kafka, topic)
    ]


def shown(listed: list[Change]) -> list[tuple[int, str, object, int | None]]:
    """Changes that a client received, in the form of `stock`."""
    ordered = sorted(listed, key=lambda change: (change.partition, change.offset))
    return [(change.partition, change.op, change.values, change.ts) for change in ordered]


def test_published_records_are_read_back(client: Client, cluster: Cluster, source: str) -> None:
    token = client.publish(source, rows(500), key=["room"], advance=501)
    assert {place.partition for place in token.records} == {0, 1}
    cover = client.wait(f"{source}hot", token, START_S)
    assert (cover.instant, cover.refused) == (500, []) and cover.frontier is not None and cover.frontier > 500
    last = {str(row["room"]): row["t"] for row in rows(500)}
    expected = sorted((room, t) for room, t in last.items() if int(str(t)) > 80)
    cluster.await_frontier([f"dsms.{source}hot", f"dsms.{source}avro"], 501)
    relation = client.relation(f"{source}hot")
    assert sorted(map(tuple, relation.rows)) == expected and relation.total == len(expected)
    assert sorted(relation.polars().rows()) == expected
    read = list(client.changes(f"{source}hot", follow=False))
    tables = list(client.changes(f"{source}hot", follow=False).polars())
    rows_in_tables = sorted(row for table in tables for row in table.select("op", "ts", "room").rows())
    assert rows_in_tables == sorted((change.op, change.ts, change.values["room"]) for change in read)
    assert {table.schema["t"] for table in tables} == {pl.Int32} == {relation.polars().schema["t"]}
    assert shown(read) == stock(cluster.kafka, f"dsms.{source}hot") and len(read) > 100
    client.wait(f"{source}avro", token, START_S)
    avro = list(client.changes(f"{source}avro", follow=False))
    assert sorted(repr(change[1:]) for change in shown(avro)) == sorted(repr(change[1:]) for change in shown(read))


def test_a_result_covers_a_record_only_when_it_is_final(client: Client, source: str) -> None:
    first = client.publish(source, [{"room": "a", "t": 99, "ts": 5}, {"room": "b", "t": 99, "ts": 9}], advance=6)
    with pytest.raises(NotCovered) as late:
        client.wait(f"{source}hot", first, 2)
    assert late.value.cover.instant == 9
    assert client.wait(f"{source}hot", first.records[0].token, START_S).covered
    client.publish(source, [], advance=10)
    assert client.wait(f"{source}hot", first, START_S).covered
    assert sorted(str(row["room"]) for row in client.relation(f"{source}hot")) == ["a", "b"]


def test_refused_records_are_reported(client: Client, cluster: Cluster, source: str) -> None:
    good = client.publish(source, [{"room": "a", "t": 99, "ts": 5}], advance=100)
    client.wait(f"{source}hot", good, START_S)
    for row in ({"room": "a", "t": 1, "ts": 50}, {"room": "a", "t": "warm", "ts": 200}):
        token = client.publish(source, [row])
        with pytest.raises(RecordRefused, match="late|expected INT") as refused:
            client.wait(f"{source}hot", token, 60)
        place = token.records[0]
        assert [(record.partition, record.offset) for record in refused.value.cover.refused] == [
            (place.partition, place.offset)
        ]
    assert len(client.dead_letters(source)) == 2


def test_cut_connections_lose_and_repeat_nothing(client: Client, cluster: Cluster, source: str) -> None:
    token = client.publish(source, rows(3000), key=["room"], advance=3001)
    client.wait(f"{source}hot", token, START_S)
    cluster.await_frontier(f"dsms.{source}hot", 3001)  # on every partition, for consumers without tokens
    expected = stock(cluster.kafka, f"dsms.{source}hot")
    for seed in range(3):
        with cutting(cluster.url, seed, 60_000) as proxy, Client(proxy.url) as cut:
            read = list(islice(cut.changes(f"{source}hot"), len(expected)))
            assert shown(read) == expected and proxy.cuts > 3
    half = len(read) // 2
    rest = list(client.changes(f"{source}hot", read[half].token, follow=False))
    assert shown(rest) == shown(read[half + 1 :])


def test_following_outlives_the_coordinator(cluster: Cluster, unique: str) -> None:
    with Client(cluster.url, attempts=8) as client:
        client.execute(f"""
            REGISTER SOURCE {unique} (room VARCHAR NOT NULL, t INT) FROM "{unique}" PARTITIONS 1 IDLE NEVER;
            CREATE STREAM {unique}s OVER {unique} KEY NULL;
            CREATE STREAMED VIEW {unique}hot AS SELECT room, t FROM R({unique}s)
        """)
        followed: list[Change] = []
        follower = threading.Thread(target=lambda: followed.extend(islice(client.changes(f"{unique}hot"), 300)))
        follower.start()
        for part in range(3):
            token = client.publish(unique, rows(100, 100 * part), advance=100 * part + 101)
            client.wait(f"{unique}hot", token, START_S)
            assert wait_until(lambda wanted=100 * (part + 1): len(followed) >= wanted, 120), len(followed)
            if part < 2:
                kill_9(cluster.coordinator)
                cluster.coordinator.start()
        follower.join(60)
        assert [change.ts for change in followed] == list(range(1, 301))


def post(url: str, sql: str, key: str) -> httpx.Response:
    return httpx.post(
        f"{url}/v1/statements", json={"sql": sql}, headers={"Idempotency-Key": key}, timeout=60, trust_env=False
    )


def test_an_idempotency_key_outlives_the_coordinator(cluster: Cluster, unique: str) -> None:
    sql = f"CREATE TABLE {unique} (id INT PRIMARY KEY); INSERT INTO {unique} VALUES (1)"
    first = post(cluster.url, sql, unique)
    kill_9(cluster.coordinator)
    cluster.coordinator.start()
    second = post(cluster.url, sql, unique)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.content == second.content and second.headers["idempotency-replayed"] == "true"
    assert post(cluster.url, f"{sql};", unique).status_code == 422
    assert cluster.sql(f"SELECT count(*) FROM {unique}")[0]["rows"] == [[1]]


def test_without_redis_a_call_with_an_idempotency_key_is_not_begun(
    kafka: str, restartable_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory, unique: str
) -> None:
    sql = f'REGISTER SOURCE {unique} (a INT) FROM "{unique}" PARTITIONS 1'
    with running(kafka, restartable_redis.url, tmp_path_factory.mktemp("own")) as own:
        restartable_redis.kill()
        away = post(own.url, sql, unique)
        assert (away.status_code, away.headers["retry-after"]) == (503, "1")
        assert unique not in {document["name"] for document in own.get("sources")}
        restartable_redis.start()
        done = [post(own.url, sql, unique) for _ in range(2)]
        assert [response.status_code for response in done] == [200, 200] and done[0].content == done[1].content


def test_a_drop_ends_following_and_the_recreated_name_is_another_result(client: Client, source: str) -> None:
    name = f"{source}hot"
    token = client.publish(source, rows(50), key=["room"], advance=51)
    client.wait(name, token, START_S)
    following = client.changes(name)
    change = next(following)
    assert client.drop(name).statement.startswith("DROP")
    with pytest.raises(ResultDropped, match="was dropped"):
        list(following)
    with pytest.raises(NotFound):
        next(client.changes(name))
    client.execute(f"CREATE STREAMED VIEW {name} AS SELECT room, t FROM R({source}s) WHERE t > 90")
    with pytest.raises(PositionGone):
        next(client.changes(name, change.token))


def test_following_continues_when_the_query_is_replaced(client: Client, cluster: Cluster, source: str) -> None:
    name = f"{source}hot"
    client.wait(name, client.publish(source, rows(50), key=["room"], advance=51), START_S)
    following = client.changes(name)
    read = list(islice(following, len(stock(cluster.kafka, f"dsms.{name}"))))
    client.execute(f"CREATE OR REPLACE STREAMED VIEW {name} AS SELECT room, t FROM R({source}s) WHERE t > 70")
    client.wait(name, client.publish(source, rows(50, 50), key=["room"], advance=101), START_S)
    whole = stock(cluster.kafka, f"dsms.{name}")
    read += islice(following, len(whole) - len(read))
    assert shown(read) == whole and any(int(str(change.values.get("t", 99))) <= 80 for change in read)


def test_refusals_are_exceptions(client: Client, source: str) -> None:
    with pytest.raises(StatementError) as wrong:
        client.execute(f"CREATE STREAMED VIEW {source}v AS\nSELECT nope FROM R({source}s)")
    assert (wrong.value.line, wrong.value.column, wrong.value.kind) == (2, 8, "sql")
    for call in (
        lambda: next(client.changes(source)),
        lambda: client.wait(source, "o1:0/1", 0),
        lambda: client.wait(f"{source}hot", "o999:0/1", 0),
        lambda: client.publish(f"{source}hot", []),
        lambda: client.publish(source, [{"room": "a"}], key=["nope"]),
    ):
        with pytest.raises(Refused):
            call()


def test_records_in_avro(client: Client, unique: str) -> None:
    client.execute(f"""
        REGISTER SOURCE {unique} (room VARCHAR NOT NULL, t INT) FROM "{unique}" PARTITIONS 1 FORMAT AVRO IDLE NEVER;
        CREATE STREAM {unique}s OVER {unique} KEY room;
        CREATE STREAMED VIEW {unique}all AS SELECT room, t FROM R({unique}s)
    """)
    token = client.publish(unique, [{"room": "a", "t": 1, "ts": 1}, {"room": "b", "t": None, "ts": 2}], advance=3)
    client.wait(f"{unique}all", token, START_S)
    assert sorted(client.relation(f"{unique}all").rows) == [["a", 1], ["b", None]]
    with pytest.raises(Refused, match='record 2.*"t": expected INT'):
        client.publish(unique, [{"room": "a", "t": 1, "ts": 4}, {"room": "b", "t": "x", "ts": 5}])


def test_asyncio(cluster: Cluster, kafka: str, source: str) -> None:
    async def talk() -> list[Change]:
        async with AsyncClient(cluster.url) as client:
            token = await client.publish(source, rows(40), key=["room"], advance=41)
            await client.wait(f"{source}hot", token, START_S)
            readers = [_all(client, f"{source}hot") for _ in range(20)]
            first, *others = await asyncio.gather(*readers)
            assert all(answer == first for answer in others)
            assert {document["name"] for document in await client.sources()} >= {source}
            return first

    assert shown(asyncio.run(talk())) == stock(kafka, f"dsms.{source}hot")


async def _all(client: AsyncClient, name: str) -> list[Change]:
    return [change async for change in client.changes(name, follow=False)]


def test_changes_of_a_table(client: Client, kafka: str, unique: str) -> None:
    client.execute(f"CREATE TABLE {unique} (id INT PRIMARY KEY, name VARCHAR); INSERT INTO {unique} VALUES (1, 'a')")
    client.execute(f"UPDATE {unique} SET name = 'b'; DELETE FROM {unique}")
    read = list(client.changes(unique, follow=False))
    assert [(change.op, change.values) for change in read] == [
        ("+", {"id": 1, "name": "a"}), ("u", {"id": 1, "name": "b"}), ("-", {"id": 1}),
    ]  # fmt: skip


def test_records_of_other_producers_are_covered_too(client: Client, kafka: str, source: str) -> None:
    write(kafka, source, [Input(b'{"room": "z", "t": 90}', 3)])
    described = client.describe(source)
    client.publish(source, [], advance=4)
    assert client.wait(f"{source}hot", f"{described['id']}:0/0", START_S).instant == 3


def test_running_operators_are_reported_as_tables_and_as_a_stream(
    client: Client, cluster: Cluster, source: str
) -> None:
    client.execute(f"""CREATE QUERY {source}told AS SELECT STREAMED id, operator, rows_in, rows_out FROM dsms_operators
        WHERE operator = 'Filter' AND query LIKE '{source}%' AND stage = 1""")
    given = rows(700)
    kept = sum(int(str(row["t"])) > 80 for row in given)
    token = client.publish(source, given, key=["room"], advance=701)
    for name in ("hot", "avro"):
        client.wait(f"{source}{name}", token, START_S)

    def operators() -> dict[str, dict[str, Any]]:
        return {operator["operator"]: operator for operator in cluster.get(f"control/operators?query={source}hot")}

    def read() -> int:
        return sum(operators().get("Source", {}).get("rows_in", ()))

    # The views may have been planned one by one: then a lane of their own each reads everything before the lanes merge.
    # Two of the records that are read are promises.
    def is_shared() -> bool:
        readers = set(operators().get("Filter", {}).get("queries", ()))
        return {f"{source}hot", f"{source}avro"} <= readers and read() in (702, 1404)

    assert wait_until(is_shared, 120), operators()
    by_name = operators()
    times = read() // 702
    assert (by_name["Source"]["rows_out"], by_name["Tagger"]["rows_in"]) == (700 * times, [700 * times])
    assert by_name["Tagger"]["state_rows"] >= 7
    assert cluster.get(f"control/operators/{by_name['Filter']['id']}")["operator"] == "Filter"
    queues = cluster.get(f"control/queues?query={source}hot")
    assert [(queue["source"], queue["partition"], queue["rows"]) for queue in queues] == [
        (source, 0, 0),
        (source, 1, 0),
    ]
    (analyzed,) = client.execute(f"EXPLAIN ANALYZE {source}hot")
    assert analyzed.rows[-1][1:3] == (702 * times, 700 * times) and f"{source}avro" in str(analyzed.rows[-1])
    (explained,) = client.execute(f"EXPLAIN {source}hot")
    assert any(str(line).startswith("expected: ") and "% of a core" in str(line) for (line,) in explained.rows)

    told = next(change for change in client.changes(f"{source}told") if change.values["rows_out"])
    assert told.values["operator"] == "Filter" and told.values["id"] == by_name["Filter"]["id"]
    assert 0 < int(told.values["rows_out"]) <= int(by_name["Filter"]["rows_out"])
    assert kept <= int(by_name["Filter"]["rows_out"]) <= int(by_name["Filter"]["rows_in"][0])
    client.execute(f"DROP QUERY {source}told")
    states = {row[0]: row[2] for row in client.execute("SHOW SOURCES")[0].rows}
    assert states["dsms_operators_source"] == "system"
    for refused in ("DROP STREAM dsms_operators", "CREATE STREAM dsms_mine OVER dsms_operators_source KEY id"):
        with pytest.raises(StatementError, match="belong to the system"):
            client.execute(refused)


def test_attributes_of_running_queries_and_executors_can_be_changed(
    client: Client, cluster: Cluster, source: str
) -> None:
    control = f"{cluster.url}/v1/control"
    cluster.await_state("running")
    changed = httpx.patch(f"{control}/queries/{source}hot", json={"weight": 2.5, "paused": True}, trust_env=False)
    assert (changed.json()["weight"], changed.json()["paused"]) == (2.5, True)
    raised = httpx.patch(f"{control}/executors/executor-1", json={"max_batch_records": 777_777}, trust_env=False)
    assert raised.status_code == 200, raised.text
    assert wait_until(lambda: cluster.get("control/executors/executor-1")["max_batch_records"] == 777_777, 120)
    refused = httpx.patch(f"{control}/executors/executor-1", json={"max_batch_records": 5}, trust_env=False)
    assert refused.status_code == 400 and "min_batch_records" in refused.json()["error"]["message"]
    httpx.patch(f"{control}/executors/executor-1", json={"max_batch_records": None}, trust_env=False)
    assert wait_until(lambda: cluster.get("control/executors/executor-1")["max_batch_records"] == 1_000_000, 120)
    cluster.sql("ALTER EXECUTOR \"executor-1\" SET POLICY 'chain(latency = 2 s)'")
    assert wait_until(lambda: cluster.get("control/executors/executor-1")["policy"] == "chain(latency = 2 s)", 120)
    with pytest.raises(Refused, match='policy "lifo" not found'):
        client.execute('ALTER EXECUTOR "executor-1" SET (policy = lifo)')
    cluster.sql('ALTER EXECUTOR "executor-1" SET POLICY fifo')
    unknown = httpx.patch(f"{control}/executors/nobody", json={}, trust_env=False)
    assert unknown.status_code == 404


def test_a_plan_is_imported_once(cluster: Cluster, source: str) -> None:
    path = f"{cluster.url}/v1/plan"
    exported = httpx.get(path, params={"format": "xml"}, trust_env=False).content
    assert source.encode() in exported and b'name="dsms_' not in exported
    xml = {"Content-Type": "application/xml"}
    assert httpx.post(path, content=exported, headers=xml, trust_env=False).json()["made"] == []
    cluster.sql(f"DROP QUERY IF EXISTS nothing; DROP VIEW {source}hot; DROP VIEW {source}avro")
    made = httpx.post(path, content=exported, headers=xml, timeout=60, trust_env=False).json()["made"]
    assert sorted(made) == [f"{source}avro", f"{source}hot"]

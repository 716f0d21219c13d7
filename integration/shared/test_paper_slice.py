"""Every example of sections 2.1 and 2.2 of the SyncSQL paper, through real Kafka, Redis and Spark."""

import io
import json
import re
from collections.abc import Callable

import fastavro
import httpx
import pytest

from integration.cluster import Cluster
from integration.kafka_log import Input, advance, changes, write

pytestmark = pytest.mark.services

EXAMPLE_1 = ["<a,100>1", "<b,75>2", "<c,80>3", "<a,95>4", "<b,85>5"]
EXAMPLE_3 = ["<a,78>1", "<a,105>2", "<b,70>3", "<c,95>4", "<a,76>5", "<c,103>6"]
STREAMS = """
    REGISTER SOURCE {p}TemperatureSource (char RoomID, int Temperature) From {p}port5501 PARTITIONS 1 FORMAT {format}
        IDLE NEVER;
    RoomTempStr: CREATE STREAM {p}RoomTempStr OVER {p}TemperatureSource KEY RoomID;
    TempStr: CREATE STREAM {p}TempStr OVER {p}TemperatureSource KEY NULL
""".replace("RoomTempStr: ", "").replace("TempStr: ", "")
QUERIES = {
    "RoomTempStr": "SELECT STREAMED * FROM R({p}RoomTempStr)",
    "TempStr": "SELECT STREAMED * FROM R({p}TempStr)",
    "Q3": "select STREAMED RoomID, Temperature from R({p}RoomTempStr) R where R.Temperature > 80",
    "HotRooms1": """create STREAMED view {p}HotRooms1{with_} as
        select RoomID, Temperature from R({p}RoomTempStr) R where R.Temperature > 80""",
    "Q3 over HotRooms1": "select STREAMED RoomID, Temperature from R({p}HotRooms1) R",
    "Q4": "select STREAMED RoomID, Temperature from R({p}RoomTempStr) R where R.Temperature > 100",
    "Q4 over HotRooms1": "select STREAMED RoomID, Temperature from R({p}HotRooms1) R where R.Temperature > 100",
}
AVRO_QUERIES = {
    "RoomTempStr": "CREATE STREAMED VIEW {p}A WITH (format = avro) AS SELECT * FROM R({p}RoomTempStr)",
    "TempStr": "CREATE STREAMED VIEW {p}B WITH (format = avro) AS SELECT * FROM R({p}TempStr)",
    "HotRooms1": QUERIES["HotRooms1"],
    "Q4 over HotRooms1": """CREATE STREAMED VIEW {p}C WITH (format = avro) AS
        SELECT RoomID, Temperature FROM R({p}HotRooms1) R WHERE R.Temperature > 100""",
}
IN_EXAMPLE_1 = {
    "RoomTempStr": ["+<a,100>1", "+<b,75>2", "+<c,80>3", "u<a,95>4", "u<b,85>5"],
    "TempStr": ["+<a,100>1", "+<b,75>2", "+<c,80>3", "+<a,95>4", "+<b,85>5"],
}
HOT = ["+<a,105>2", "+<c,95>4", "-<a>5", "u<c,103>6"]
HOTTER = ["+<a,105>2", "-<a>5", "+<c,103>6"]
IN_EXAMPLE_3 = {
    "RoomTempStr": ["+<a,78>1", "u<a,105>2", "+<b,70>3", "+<c,95>4", "u<a,76>5", "u<c,103>6"],
    "Q3": HOT,
    "HotRooms1": HOT,
    "Q3 over HotRooms1": HOT,
    "Q4": HOTTER,
    "Q4 over HotRooms1": HOTTER,
}
CASES = {"example 1": (EXAMPLE_1, IN_EXAMPLE_1), "examples 3 and 4": (EXAMPLE_3, IN_EXAMPLE_3)}
AVRO_ROW = {
    "type": "record",
    "name": "reading",
    "fields": [{"name": "RoomID", "type": "string"}, {"name": "Temperature", "type": "int"}],
}


def tuples(lines: list[str]) -> list[tuple[str, int, int]]:
    matches = [re.fullmatch(r"<(\w+),(\d+)>(\d+)", line) for line in lines]
    return [(match[1], int(match[2]), int(match[3])) for match in matches if match]


def run(cluster: Cluster, prefix: str, queries: dict[str, str], **words: str) -> dict[str, str]:
    """Creates the streams and queries; returns the result topic of each query."""
    results = cluster.sql(";".join([STREAMS, *queries.values()]).format(p=prefix, **words))
    made = results[-len(queries) :]
    return {query: cluster.topic(result["name"]) for query, result in zip(queries, made, strict=True)}


def from_json(body: bytes) -> dict[str, object]:
    return json.loads(body)


def from_avro(cluster: Cluster) -> Callable[[bytes], dict[str, object]]:
    def decode(body: bytes) -> dict[str, object]:
        assert body[0] == 0
        number = int.from_bytes(body[1:5], "big")
        schema = httpx.get(f"{cluster.url}/schemas/ids/{number}", trust_env=False).json()["schema"]
        return fastavro.schemaless_reader(io.BytesIO(body[5:]), fastavro.parse_schema(json.loads(schema)), None)

    return decode


def notation(kafka: str, topic: str, decode: Callable[[bytes], dict[str, object]]) -> list[str]:
    """The changes of a result topic in the paper's notation of tagged streams."""
    lines = []
    for change in changes(kafka, topic):
        if change.op == "-":
            assert change.key is not None and change.value is None
            lines.append(f"-<{decode(change.key)['RoomID']}>{change.ts}")
            continue
        row = decode(change.value or b"")
        assert list(row) == ["RoomID", "Temperature"]
        assert change.key is None or decode(change.key) == {"RoomID": row["RoomID"]}
        lines.append(f"{change.op}<{row['RoomID']},{row['Temperature']}>{change.ts}")
    return lines


@pytest.mark.parametrize("case", CASES)
def test_in_json(cluster: Cluster, unique: str, case: str):
    arrived, expected = CASES[case]
    topics = run(cluster, unique, QUERIES, format="JSON", with_="")
    rows = [Input(json.dumps({"RoomID": room, "Temperature": heat}).encode(), ts) for room, heat, ts in tuples(arrived)]
    write(cluster.kafka, f"{unique}port5501", rows)
    advance(cluster.kafka, f"{unique}port5501", 10)
    for query, lines in expected.items():
        cluster.await_frontier(topics[query], 10)
        assert notation(cluster.kafka, topics[query], from_json) == lines, query


@pytest.mark.parametrize("case", CASES)
def test_in_avro(cluster: Cluster, unique: str, case: str):
    arrived, expected = CASES[case]
    topics = run(cluster, unique, AVRO_QUERIES, format="AVRO", with_=" WITH (format = avro)")
    subject = f"{cluster.url}/subjects/{unique}writer-value/versions"
    number = httpx.post(subject, json={"schema": json.dumps(AVRO_ROW)}, trust_env=False).json()["id"]

    def encoded(room: str, heat: int) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO_ROW), {"RoomID": room, "Temperature": heat})
        return b"\0" + number.to_bytes(4, "big") + body.getvalue()

    write(cluster.kafka, f"{unique}port5501", [Input(encoded(room, heat), ts) for room, heat, ts in tuples(arrived)])
    advance(cluster.kafka, f"{unique}port5501", 10)
    for query in AVRO_QUERIES.keys() & expected.keys():
        cluster.await_frontier(topics[query], 10)
        assert notation(cluster.kafka, topics[query], from_avro(cluster)) == expected[query], query


def test_a_tagged_input_of_example_2(cluster: Cluster, unique: str):
    cluster.sql(f"""
        REGISTER SOURCE {unique}In (char Attr1) FROM "{unique}.s" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}In KEY Attr1;
        CREATE STREAMED VIEW {unique}Out AS SELECT Attr1, TS FROM R({unique}S)
    """)
    tagged = [("+", "a", 1), ("+", "b", 3), ("-", "a", 4), ("+", "c", 5)]
    rows = [Input(json.dumps({"Attr1": value}).encode(), ts, op=op) for op, value, ts in tagged]
    write(cluster.kafka, f"{unique}.s", rows)
    advance(cluster.kafka, f"{unique}.s", 9)
    topic = cluster.topic(f"{unique}Out")
    cluster.await_frontier(topic, 9)
    assert [(change.op, change.key, change.value, change.ts) for change in changes(cluster.kafka, topic)] == [
        ("+", b'{"Attr1":"a"}', b'{"Attr1":"a","TS":1}', 1),
        ("+", b'{"Attr1":"b"}', b'{"Attr1":"b","TS":3}', 3),
        ("-", b'{"Attr1":"a"}', None, 4),
        ("+", b'{"Attr1":"c"}', b'{"Attr1":"c","TS":5}', 5),
    ]

"""The sizes of windows with a range are chosen while a query runs, and stay the same after a crash: results are a
function of the log and of the logged sizes."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from connectors.kafka.logs.internal_log import CUT_OVER_KEY
from dsms.local.waiting import wait_until
from integration.cluster import kill_9, log_of, running
from integration.kafka_log import Input, advance, changes, read_committed, write
from integration.kafka_topics import create_topic

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
PARTITIONS, LEAST, MOST, CHUNK = 2, 20, 100_000, 400
STATEMENTS = f"""
REGISTER SOURCE {{p}}T (k INT, v BIGINT) FROM {{topic}}; CREATE STREAM {{p}}A OVER {{p}}T KEY NULL;
CREATE QUERY {{p}}Ranged WITH (memory = '20 KB') AS
    SELECT STREAMED k, COUNT(*) AS n, MAX(v) AS m FROM {{p}}A [Range Min {LEAST} Max {MOST}] GROUP BY k;
CREATE QUERY {{p}}Whole AS SELECT STREAMED k, COUNT(*) AS n, MAX(v) AS m FROM {{p}}A [Range {MOST}] GROUP BY k
"""
Groups = dict[int, tuple[int, int]]


def record(offset: int) -> dict[str, int]:
    return {"k": offset % 3, "v": offset % 17}


def sizes(kafka: str, cluster: str) -> dict[int, list[tuple[int, float]]]:
    """The logged fractions of the range by partition."""
    known: dict[int, list[tuple[int, float]]] = defaultdict(lambda: [(0, 1.0)])
    for message in read_committed(kafka, f"_dsms.{cluster}.shed"):
        key, value = message.key(), message.value()
        assert key is not None and value is not None
        if key != CUT_OVER_KEY:
            known[int(key.decode().split("/")[2])].append(tuple(json.loads(value)[:2]))
    return known


def counted(known: dict[int, list[tuple[int, float]]], count: int, tau: int) -> Groups:
    """The groups at an instant, from the records (whose instants are their offsets) and the logged sizes."""
    values: dict[int, list[int]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for offset in range(count):
            fraction = [part for first, part in known[partition] if first <= offset][-1]
            if offset <= tau <= offset + LEAST + int(fraction * (MOST - LEAST)):
                values[record(offset)["k"]].append(record(offset)["v"])
    return {k: (len(found), max(found)) for k, found in values.items()}


def last(kafka: str, topic: str) -> Groups:
    rows: Groups = {}
    for change in changes(kafka, topic):
        if change.value is not None:
            value = json.loads(change.value)
            rows[value["k"]] = (value["n"], value["m"])
    return rows


def test_sizes_that_were_chosen_hold_after_a_crash(kafka: str, redis_url: str, tmp_path: Path, unique: str):
    topic = create_topic(kafka, f"{unique}in", partitions=PARTITIONS)
    written = 0

    def more() -> None:
        nonlocal written
        offsets = range(written, written + CHUNK)
        write(
            kafka, topic, [Input(json.dumps(record(at)).encode(), at, p) for p in range(PARTITIONS) for at in offsets]
        )
        written += CHUNK

    more()
    with running(kafka, redis_url, tmp_path) as cluster:
        cluster.sql(STATEMENTS.format(p=cluster.name, topic=topic))
        first = cluster.start_executor()
        ranged, whole = (f"dsms.{cluster.name}{name}" for name in ("Ranged", "Whole"))

        def smaller() -> bool:
            """Writes more records; returns whether a smaller size was logged for records that are written."""
            more()
            cluster.await_frontier(ranged, written - 1)
            return any(at < written and part < 1 for parts in sizes(kafka, cluster.name).values() for at, part in parts)

        assert wait_until(smaller, 120, pause_s=0.3), log_of(first)
        states = {row[0]: row[2] for row in cluster.sql("SHOW QUERIES")[0]["rows"]}
        assert "windows at " in states[f"{cluster.name}Ranged"], states
        cluster.start_executor("executor-2")
        kill_9(first)
        more()
        cluster.await_frontier(ranged, written - 1)
        more()
        advance(kafka, topic, written, PARTITIONS)
        cluster.await_frontier([ranged, whole], written)
        known, everything = sizes(kafka, cluster.name), defaultdict(lambda: [(0, 1.0)])
        assert last(kafka, ranged) == counted(known, written, written - 1)
        settings = cluster.sql(f"EXPLAIN RESULT {cluster.name}Ranged AT {written - 1}")[0]["rows"]
        assert settings and {(row[1], row[2], row[4]) for row in settings} == {
            (partition, offset, f"window of {LEAST + int(fraction * (MOST - LEAST))}")
            for partition, history in known.items()
            for offset, fraction in dict(history).items()  # the last of several settings from the same offset is valid
            if offset <= written  # a setting chosen at the end of the log is for later records
        }
        assert last(kafka, ranged) != last(kafka, whole) == counted(everything, written, written - 1)

"""The log law in the executor's code for as-of joins, band joins and EMIT FINAL: the published records do not depend on
targets, epochs and crashes."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from confluent_kafka import Message

from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run

SOURCES = """REGISTER SOURCE A (id INT, k TEXT, t BIGINT) FROM a SLACK 3;
REGISTER SOURCE B (k TEXT, t BIGINT, y INT) FROM b SLACK 3;
CREATE STREAM S OVER A KEY id; CREATE STREAM E OVER A KEY NULL;
CREATE STREAM D OVER B KEY (k, t); CREATE STREAM L OVER B KEY NULL;"""
QUERIES = [
    "SELECT S.id, S.t, D.t AS u, y FROM S ASOF LEFT JOIN D ON S.k = D.k AND S.t >= D.t",
    "SELECT E.id, L.t AS u, y FROM E ASOF JOIN L ON E.k = L.k AND E.t < L.t",
    "SELECT E.id, y FROM E ASOF LEFT JOIN D ON E.t >= D.t",
    "SELECT S.id, D.t AS u, y FROM S JOIN D ON S.k = D.k AND S.t BETWEEN D.t - 1 AND D.t + 1",
    "SELECT S.id, D.t AS u, y FROM S LEFT JOIN D ON abs(S.t - D.t) <= 1",
    "SELECT k, window_end, count(*) AS n FROM HOP(TABLE E, DESCRIPTOR(TS), 2, 6) GROUP BY k, window_end EMIT FINAL",
    "SELECT k, window_end, count(*) AS n FROM SESSION(TABLE E PARTITION BY k, DESCRIPTOR(TS), 1) "
    "GROUP BY k, window_start, window_end EMIT FINAL",
]
RUNS = [(1, [1], None), (2, [3], 2), (3, [7, 1], 1), (2, [1, 4], 0)]


def log(topic: str, seed: int) -> dict[int, list[Message]]:
    """Two partitions of records that are almost in the order of their instants. The last record of each is far in the
    future."""
    draw, parts = random.Random(seed), {}
    for part in range(2):
        instants = [max(0, at // 2 + draw.randrange(-1, 2)) for at in range(24)]
        parts[part] = [message(topic, part, at, ts, draw) for at, ts in enumerate([*instants, 90])]
    return parts


def message(topic: str, part: int, at: int, ts: int, draw: random.Random) -> Message:
    row = {"k": draw.choice("ab"), "t": draw.randrange(6), "y": draw.randrange(3), "id": draw.randrange(4)}
    deleted = [("dsms-op", b"-")] if draw.random() < 0.25 else []
    return Message(
        topic=topic,
        partition=part,
        offset=at,
        key=None,
        value=json.dumps(row).encode(),
        headers=deleted,
        timestamp=(1, ts),
    )


@cache
def records(query: str, seed: int, how: tuple) -> dict[str, list[tuple]]:
    logs = {topic: log(topic, seed + at) for at, topic in enumerate("ab")}
    environment = FakeEnvironment({topic: dict.fromkeys(parts, 0) for topic, parts in logs.items()})
    catalog, _ = apply_all(f"{SOURCES} CREATE STREAMED VIEW V AS {query}", environment=environment)
    targets, limits, crash_at = how
    world = run(World(logs), catalog, targets, list(limits), crash_at)
    return world.written


@pytest.mark.parametrize(("query", "seed"), [(query, 1 + at % 2) for at, query in enumerate(QUERIES)])
def test_records_do_not_depend_on_the_run(query: str, seed: int) -> None:
    whole = records(query, seed, (1, (10_000,), None))
    assert whole
    for targets, limits, crash_at in RUNS:
        assert records(query, seed, (targets, tuple(limits), crash_at)) == whole, (targets, limits, crash_at)

"""CONSTRAINT ORDERED BY in the executor's code: the records are those of the query without it over what is admitted,
for any targets, epochs, crashes and turns; a partition that lags keeps what it may still ask for."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from confluent_kafka import Message
from facts import Topics, apply_all
from pure_executor import World, run

SLACK, K = 6, 3
QUERIES = [
    "SELECT c, count(*) AS n, sum(v) AS s FROM S GROUP BY c",
    "SELECT a.c, a.v, b.v AS w FROM S a JOIN L b ON a.c = b.c",
    "SELECT window_end, count(*) AS n FROM HOP(TABLE S, DESCRIPTOR(c), 5, 10) GROUP BY window_start, window_end",
    "SELECT DISTINCT c FROM S WHERE NOT EXISTS (SELECT 1 FROM L WHERE L.c = S.c)",
    "SELECT c, count(*) AS n FROM (SELECT c, n, count(*) AS m FROM (SELECT c, v, count(*) AS n FROM S GROUP BY c, v) x "
    "GROUP BY c, n) y GROUP BY c",
]
#: Turns by which stages wait for long, and then take many epochs at once.
TURNS = tuple(random.Random(5).choices((0, 0, 1, 2), k=60))
Rows = list[tuple[int, int, int]]


def rows(seed: int, lags: tuple[int, int]) -> list[Rows]:
    """For each partition (instant, c, v) in log order; one partition lags behind the other in `c`."""
    draw = random.Random(seed)
    return [
        [
            (
                max(0, at - draw.randrange(SLACK + 1)),
                2 * at - lag - draw.randrange(K + 1) - 9 * (draw.random() < 0.1),
                draw.randrange(3),
            )
            for at in range(30)
        ]
        + [(90, 99, 0)]
        for lag in lags
    ]


def admitted(part: Rows) -> Rows:
    """What keeps the promise and is not late, record by record."""
    high, latest, kept = -(10**9), -(10**9), []
    for instant, c, v in part:
        if c < high - K:
            continue
        high = max(high, c)
        if instant >= latest - SLACK:
            latest = max(latest, instant)
            kept.append((instant, c, v))
    return kept


def messages(topic: str, parts: list[Rows]) -> dict[int, list[Message]]:
    return {
        part: [
            Message(
                topic=topic, partition=part, offset=at, key=None, value=json.dumps({"c": c, "v": v}).encode(),
                headers=[], timestamp=(1, instant),
            )
            for at, (instant, c, v) in enumerate(found)
        ]
        for part, found in enumerate(parts)
    }  # fmt: skip


@cache
def told(query: str, seed: int, constraint: str, how: tuple) -> tuple[dict, int]:
    """The records of a view, and how many dead letters there are."""
    logs = {"a": rows(seed, (0, 8)), "b": rows(seed + 50, (4, 0))}
    if not constraint:
        logs = {topic: [admitted(part) for part in parts] for topic, parts in logs.items()}
    read = {topic: messages(topic, parts) for topic, parts in logs.items()}
    topics = Topics({topic: dict.fromkeys(parts, 0) for topic, parts in read.items()})
    sources = f"""REGISTER SOURCE A (c BIGINT, v INT) FROM a SLACK {SLACK} {constraint};
    REGISTER SOURCE B (c BIGINT, v INT) FROM b SLACK {SLACK} {constraint};
    CREATE STREAM S OVER A KEY NULL; CREATE STREAM L OVER B KEY NULL;"""
    catalog, _ = apply_all(f"{sources} CREATE STREAMED VIEW V AS {query}", topics=topics)
    targets, limits, crash_at, turns = how
    with pytest.MonkeyPatch.context() as patch:
        world = run(World(read).attach(patch), catalog, targets, list(limits), crash_at, schedule=list(turns))
    return {lane: found for lane, found in world.results.items() if found}, len(world.dead)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("how", [(2, (3,), None, ()), (3, (7, 1), 4, ()), (2, (5,), None, TURNS)])
def test_records_are_those_of_what_keeps_the_promise(query: str, how: tuple) -> None:
    for seed in (1, 2):
        free, _ = told(query, seed, "", (1, (10_000,), None, ()))
        whole = told(query, seed, f"CONSTRAINT ORDERED BY c WITHIN {K}", (1, (10_000,), None, ()))
        bound, dead = told(query, seed, f"CONSTRAINT ORDERED BY c WITHIN {K}", how)
        assert bound == free == whole[0]
        assert dead == whole[1] > 0

"""CONSTRAINT CLUSTERED BY and REFERENCES in the executor's code: the records are those of the query without them over
what is admitted, for any targets, epochs, crashes and turns, though a value comes in any partition."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from confluent_kafka import Message
from facts import Topics, apply_all
from pure_executor import World, run

SLACK, K, KR = 6, 5, 7
#: The second one, which nothing breaks, puts stages between what keeps the first and what forgets by it.
PROMISES = {
    "a": f"CONSTRAINT CLUSTERED BY c WITHIN {K}, CLUSTERED BY v WITHIN 1000",
    "b": f"CONSTRAINT c REFERENCES A (c) WITHIN {KR}",
}
QUERIES = {
    "SELECT c, count(*) AS n, sum(v) AS s FROM S GROUP BY c": "a",
    "SELECT c, v, count(*) AS n FROM L GROUP BY c, v": "ab",
    "SELECT a.c, a.v, b.v AS w FROM S a JOIN L b ON a.c = b.c": "ab",
    "SELECT v, count(*) AS n FROM (SELECT DISTINCT c, v FROM L) x GROUP BY v": "ab",
    "SELECT DISTINCT c FROM S WHERE NOT EXISTS (SELECT 1 FROM L WHERE L.c = S.c)": "ab",
}
#: Turns by which stages wait for long, and then take many epochs at once.
TURNS = tuple(random.Random(5).choices((0, 0, 1, 2), k=60))
#: Instant, c, v.
Rows = list[tuple[int, int, int]]


def rows(seed: int, lag: int) -> list[Rows]:
    """For each partition (instant, c, v) in log order; now and then a value comes long after, or never came."""
    draw = random.Random(seed)
    return [
        [
            (
                max(0, at - draw.randrange(SLACK + 1)),
                ((at - lag) // 4 if draw.random() < 0.85 else draw.randrange(9)) * 37 % 101,
                draw.randrange(3),
            )
            for at in range(36)
        ]
        + [(90, 99, 0)]
        for _ in range(2)
    ]


def in_time(part: Rows) -> list[bool]:
    latest, found = -(10**9), []
    for instant, _, _ in part:
        found.append(instant >= latest - SLACK)
        latest = max(latest, instant)
    return found


def admitted(logs: dict[str, list[Rows]]) -> dict[str, list[Rows]]:
    """What is not late and keeps the promises, record by record in the order of instants."""
    placed = {
        topic: sorted(
            (row[0], part, at, *row[1:])
            for part, found in enumerate(parts)
            for at, (row, fine) in enumerate(zip(found, in_time(found), strict=True))
            if fine
        )
        for topic, parts in logs.items()
    }
    last, one, many = {}, [], []
    for record in placed["a"]:
        instant, _, _, c, _ = record
        if instant - last.get(c, instant) <= K:
            last[c] = instant
            one.append(record)
    for record in placed["b"]:
        if any(c == record[3] and 0 <= record[0] - instant <= KR for instant, _, _, c, _ in one):
            many.append(record)
    kept = {"a": one, "b": many}
    return {
        topic: [
            [(instant, c, v) for instant, at, _, c, v in sorted(found, key=lambda r: r[2]) if at == part]
            for part in (0, 1)
        ]
        for topic, found in kept.items()
    }


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


def all_rows(seed: int) -> dict[str, list[Rows]]:
    return {"a": rows(seed, 0), "b": rows(seed + 50, 4)}


@cache
def told(query: str, seed: int, bound: bool, how: tuple) -> tuple[dict, int]:
    """The records of a view, and how many dead letters there are."""
    logs = all_rows(seed) if bound else admitted(all_rows(seed))
    read = {topic: messages(topic, parts) for topic, parts in logs.items()}
    topics = Topics({topic: dict.fromkeys(parts, 0) for topic, parts in read.items()})
    a, b = (PROMISES[topic] if bound else "" for topic in "ab")
    sources = f"""REGISTER SOURCE A (c BIGINT, v INT) FROM a SLACK {SLACK} {a};
    REGISTER SOURCE B (c BIGINT, v INT) FROM b SLACK {SLACK} {b};
    CREATE STREAM S OVER A KEY NULL; CREATE STREAM L OVER B KEY NULL;"""
    catalog, _ = apply_all(f"{sources} CREATE STREAMED VIEW V AS {query}", topics=topics)
    targets, limits, crash_at, turns = how
    with pytest.MonkeyPatch.context() as patch:
        world = run(World(read).attach(patch), catalog, targets, list(limits), crash_at, schedule=list(turns))
    return {lane: found for lane, found in world.results.items() if found}, len(world.dead)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("how", [(2, (3,), None, ()), (3, (7, 1), 4, ()), (2, (5,), None, TURNS)])
def test_records_are_those_of_what_keeps_the_promises(query: str, how: tuple) -> None:
    for seed in (1, 2):
        free, _ = told(query, seed, False, (1, (10_000,), None, ()))
        bound, dead = told(query, seed, True, how)
        everything, kept = all_rows(seed), admitted(all_rows(seed))
        assert bound == free
        left_out = [
            len(everything[topic][part]) - len(kept[topic][part]) for topic in QUERIES[query] for part in (0, 1)
        ]
        assert dead == sum(left_out) > 0

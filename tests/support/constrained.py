"""Queries over two constrained sources in the executor's code, for any targets, epochs, crashes and turns."""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import Message

from tests.support.fake_environment import Topics, apply_all
from tests.support.pure_executor import World, run

SLACK = 6
#: Turns by which stages wait for long, and then take many epochs at once.
TURNS = tuple(random.Random(5).choices((0, 0, 1, 2), k=60))
#: Targets, limits of the batches, the epoch of a crash, and turns.
HOWS = [(2, (3,), None, ()), (3, (7, 1), 4, ()), (2, (5,), None, TURNS)]
#: Instant, c, v.
Rows = list[tuple[int, int, int]]


def messages(topic: str, parts: list[Rows]) -> dict[int, list[Message]]:
    return {
        part: [
            Message(
                topic=topic, partition=part, offset=at, key=None, value=json.dumps({"c": c, "v": v}).encode(),
                headers=[], timestamp=(1, instant),
            )
            for at, (instant, c, v) in enumerate(rows)
        ]
        for part, rows in enumerate(parts)
    }  # fmt: skip


def records(query: str, logs: dict[str, list[Rows]], promises: dict[str, str], how: tuple) -> tuple[dict, int]:
    """What a view over the sources A and B, which have promises, writes, and how many dead letters there are."""
    read = {topic: messages(topic, parts) for topic, parts in logs.items()}
    topics = Topics({topic: dict.fromkeys(parts, 0) for topic, parts in read.items()})
    sources = f"""REGISTER SOURCE A (c BIGINT, v INT) FROM a SLACK {SLACK} {promises.get("a", "")};
    REGISTER SOURCE B (c BIGINT, v INT) FROM b SLACK {SLACK} {promises.get("b", "")};
    CREATE STREAM S OVER A KEY NULL; CREATE STREAM L OVER B KEY NULL;"""
    catalog, _ = apply_all(f"{sources} CREATE STREAMED VIEW V AS {query}", topics=topics)
    targets, limits, crash_at, turns = how
    with pytest.MonkeyPatch.context() as patch:
        world = run(World(read).attach(patch), catalog, targets, list(limits), crash_at, schedule=list(turns))
    return world.written, len(world.dead)

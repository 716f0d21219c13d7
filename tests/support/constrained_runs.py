"""Runs of a view over two constrained sources in the executor's code: with several targets, batch sizes, crashes and
schedules of the stages."""

from __future__ import annotations

import json
import random

from confluent_kafka import Message

from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, run

SLACK = 6
#: A schedule of the stages (see `run`) in which they often wait and then take the input of several epochs at once.
TURNS = tuple(random.Random(5).choices((0, 0, 1, 2), k=60))
#: For each run: the number of targets, the limits of the batches, the epoch of a crash, and the schedule of the stages.
SETTINGS = [(2, (3,), None, ()), (3, (7, 1), 4, ()), (2, (5,), None, TURNS)]
#: (instant, c, v) of each record of a partition, in log order.
Rows = list[tuple[int, int, int]]


def kafka_messages(topic: str, partitions: list[Rows]) -> dict[int, list[Message]]:
    """The log of a topic by partition, with the columns c and v as JSON."""
    return {
        partition: [
            Message(
                topic=topic, partition=partition, offset=at, key=None, value=json.dumps({"c": c, "v": v}).encode(),
                headers=[], timestamp=(1, instant),
            )
            for at, (instant, c, v) in enumerate(rows)
        ]
        for partition, rows in enumerate(partitions)
    }  # fmt: skip


def run_view(query: str, logs: dict[str, list[Rows]], constraints: dict[str, str], settings: tuple) -> tuple[dict, int]:
    """The result records of a view over the sources A and B, whose topics are a and b, and the number of dead letters.

    `constraints` has the CONSTRAINT clause of a topic's source, if any.
    """
    read = {topic: kafka_messages(topic, partitions) for topic, partitions in logs.items()}
    environment = FakeEnvironment({topic: dict.fromkeys(partitions, 0) for topic, partitions in read.items()})
    sources = f"""REGISTER SOURCE A (c BIGINT, v INT) FROM a SLACK {SLACK} {constraints.get("a", "")};
    REGISTER SOURCE B (c BIGINT, v INT) FROM b SLACK {SLACK} {constraints.get("b", "")};
    CREATE STREAM S OVER A KEY NULL; CREATE STREAM L OVER B KEY NULL;"""
    catalog, _ = apply_all(f"{sources} CREATE STREAMED VIEW V AS {query}", environment=environment)
    targets, limits, crash_at, turns = settings
    world = run(World(read), catalog, targets, list(limits), crash_at, schedule=list(turns))
    return world.written, len(world.dead)

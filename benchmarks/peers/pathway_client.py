"""A query in Pathway over bids in JSON, from one Kafka topic into another; runs in Pathway's environment.

Reads lines `{"broker", "topic", "out", "columns", "tenth"}` and answers each with the seconds that the query took.
"""

import json
import logging
import sys
import time

import pathway as pw


class Bid(pw.Schema):
    """A bid."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    dateTime: int  # noqa: N815 the column's name
    extra: str


def run(order: dict) -> float:
    """Runs one query to the end of its topic."""
    started = time.monotonic()
    pw.internals.parse_graph.G.clear()
    settings = {"bootstrap.servers": order["broker"], "group.id": order["out"], "auto.offset.reset": "earliest"}
    bids = pw.io.kafka.read(settings, topic=order["topic"], format="json", schema=Bid, mode="static")
    if order["tenth"]:
        bids = bids.filter(pw.this.auction % 10 == 0)
    results = bids.select(*(pw.this[name] for name in order["columns"]))
    pw.io.kafka.write(results, {**settings, "compression.type": "lz4"}, topic_name=order["out"], format="json")
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return time.monotonic() - started


logging.disable(logging.INFO)
for line in sys.stdin:
    print(f"@{run(json.loads(line))}", flush=True)

"""What runs in a soak: three questions of NEXMark, and queries that share all but their constants."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.cluster import Cluster
from benchmarks.nexmark.questions import QUESTIONS, SECONDS
from benchmarks.nexmark.streams import STREAMS, Stream
from benchmarks.sharing import queries

#: The streams that are fed, by their kinds of events.
FED: dict[str, Stream] = {"auction": STREAMS["Auction"], "bid": STREAMS["Bid"]}
#: Heartbeats come with the records, so no partition has to count as idle.
OPTIONS = 'FORMAT AVRO TIMESTAMP BY "dateTime" TAGGED NONE IDLE AFTER 60 SECONDS'
_WINDOW = re.compile(r"Bids \[Range (\d+) Seconds\]")


@dataclass(frozen=True)
class Query:
    """A query for us and for DuckDB. `untied` are the columns that are compared, where ties are broken freely."""

    name: str
    ours: str
    duckdb: str
    untied: tuple[str, ...] = ()
    #: Whether its relation is compared at instants within the run, too.
    at_instants: bool = False


def workload(shared: int) -> list[Query]:
    """q5, q7, q9, each as of the last whole second, and so many shared queries.

    >>> workload(1)[-1].duckdb
    'SELECT auction, bidder, price FROM Bid WHERE auction = 79910'
    """
    nexmark = [QUESTIONS[name] for name in ("q5", "q7", "q9")]
    asked = [Query(one.name, one.over(synchronised=True), one.duckdb, at_instants=True) for one in nexmark]
    return asked + [_shared(number, text) for number, text in queries(shared)]


def _shared(number: int, text: str) -> Query:
    """DuckDB has the views Bid, as of an instant, and `instants` with that instant; Range includes both its ends."""
    recent = r"""(SELECT * FROM Bid WHERE "dateTime" >= (SELECT instant - INTERVAL \1 SECOND FROM instants))"""
    duckdb = re.sub(r"\bBids\b", "Bid", _WINDOW.sub(recent, text.replace("STREAMED ", "")))
    untied = ("price",) if "LIMIT" in text else ()
    return Query(f"s{number}", re.sub(r"\bBids\b", "Bid", text), duckdb, untied)


def declare(cluster: Cluster) -> None:
    """The streams, and the clock of the questions."""
    cluster.api.execute(SECONDS)
    for stream in FED.values():
        cluster.api.execute(stream.declaration(stream.topic, "", OPTIONS))


def start(cluster: Cluster, asked: list[Query]) -> None:
    """Registers all queries."""
    for query in asked:
        options = "FORMAT = AVRO" if query.at_instants else "FORMAT = AVRO, PARTITIONS = 1"
        cluster.api.execute(f"CREATE QUERY {query.name} WITH ({options}) AS {query.ours}")

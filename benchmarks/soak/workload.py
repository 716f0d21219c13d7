"""The queries of a soak: three of NEXMark, and queries that differ only in constants."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.cluster import Cluster
from benchmarks.nexmark.questions import QUESTIONS, SECONDS
from benchmarks.nexmark.streams import STREAMS, Stream
from benchmarks.sharing import queries

#: The streams that are fed, by their kinds of events.
FED: dict[str, Stream] = {"auction": STREAMS["Auction"], "bid": STREAMS["Bid"]}
#: The feed sends heartbeats, so that no partition needs to become idle.
OPTIONS = 'FORMAT AVRO TIMESTAMP BY "dateTime" TAGGED NONE IDLE AFTER 60 SECONDS'
_WINDOW = re.compile(r"Bids \[Range (\d+) Seconds\]")


@dataclass(frozen=True)
class Query:
    """A query for this system and for DuckDB. `untied` are the compared columns if ties may be broken in any way."""

    name: str
    ours: str
    duckdb: str
    untied: tuple[str, ...] = ()
    #: Whether its relation is also compared at instants within the run.
    at_instants: bool = False


def workload(shared: int) -> list[Query]:
    """q5, q7 and q9, each as of the last whole second, and a number of shared queries.

    >>> workload(1)[-1].duckdb
    'SELECT auction, bidder, price FROM Bid WHERE auction = 79910'
    """
    nexmark = [QUESTIONS[name] for name in ("q5", "q7", "q9")]
    asked = [Query(one.name, one.over(synchronised=True), one.duckdb, at_instants=True) for one in nexmark]
    return asked + [_shared(number, text) for number, text in queries(shared)]


def _shared(number: int, text: str) -> Query:
    """In DuckDB, the view Bid has the bids up to an instant, and the view `instants` has that instant. A Range includes
    both of its ends."""
    recent = r"""(SELECT * FROM Bid WHERE "dateTime" >= (SELECT instant - INTERVAL \1 SECOND FROM instants))"""
    duckdb = re.sub(r"\bBids\b", "Bid", _WINDOW.sub(recent, text.replace("STREAMED ", "")))
    untied = ("price",) if "LIMIT" in text else ()
    return Query(f"s{number}", re.sub(r"\bBids\b", "Bid", text), duckdb, untied)


def declare(cluster: Cluster) -> None:
    """Declares the streams, and the clock to which queries are synchronised."""
    cluster.api.execute(SECONDS)
    for stream in FED.values():
        cluster.api.execute(stream.declaration(stream.topic, "", OPTIONS))


def start(cluster: Cluster, asked: list[Query]) -> None:
    """Creates all queries."""
    for query in asked:
        options = "FORMAT = AVRO" if query.at_instants else "FORMAT = AVRO, PARTITIONS = 1"
        cluster.api.execute(f"CREATE QUERY {query.name} WITH ({options}) AS {query.ours}")

"""The live demo: sends bids of an auction house until Ctrl-C, and shows the results of queries as they change."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from connectors.formats.record_codec import JsonCodec
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.publish import Outgoing, Publisher
from dsms.cli.api_client import ApiClient
from dsms.demo.auction_house import STATEMENTS, House
from dsms.demo.screen import Screen

#: Seconds between two portions of bids, and between two printed results.
_PORTION_S, _LOOK_S = 0.2, 2.0


@dataclass
class Live:
    """Sends bids at a rate and shows the results of the queries."""

    api: ApiClient
    kafka: KafkaSettings
    screen: Screen
    rate: int
    console: str
    house: House = field(default_factory=lambda: House(random.Random()))

    def run(self) -> None:
        """Runs until it is interrupted."""
        for statement in STATEMENTS:
            self.screen.line(f"> {statement}")
            self.api.execute(statement)
        self.screen.aside('"leaders" is computed from "busiest", and both share the window and its groups')
        self._tour()
        publishers = {topic: Publisher(self.kafka, topic) for topic in ("auctions", "bids")}
        began = looked = time.monotonic()
        sent = 0
        while True:
            due = int((time.monotonic() - began) * self.rate)
            self._send(publishers, due - sent)
            sent = due
            if time.monotonic() - looked >= _LOOK_S:
                looked = time.monotonic()
                self._show(round(looked - began), sent)
            time.sleep(_PORTION_S)

    def _tour(self) -> None:
        self.screen.title(f"The console: {self.console}")
        self.screen.aside("Plan shows what the queries share; a query's page shows its changes as they come.")
        self.screen.aside("Any query can be added while all this runs, in the console or by dsms sql. Ctrl-C ends it.")
        self.screen.line()

    def _send(self, publishers: dict[str, Publisher], bids: int) -> None:
        now = time.time_ns() // 1_000_000
        for event in self.house.events(bids):
            value = JsonCodec().encode(event.row, key=False)
            publishers[event.topic].send(Outgoing(None, value, ts=now))
        for publisher in publishers.values():
            publisher.flush()

    def _show(self, seconds: int, bids: int) -> None:
        leaders = self._rows("leaders", "SELECT auction, n FROM leaders ORDER BY r, auction LIMIT 3")
        categories = self._rows("categories", "SELECT category, bids FROM categories ORDER BY bids DESC LIMIT 2")
        busiest = ", ".join(f"{auction} ({count})" for auction, count in leaders) or "none yet"
        most = ", ".join(f"{category} {count}" for category, count in categories) or "none yet"
        self.screen.line(
            f"{seconds:4} s  {bids:7} bids; busiest auctions of the last minute: {busiest}; most bids: {most}"
        )

    def _rows(self, view: str, sql: str) -> Sequence[Sequence[object]]:
        """The rows of a SELECT from a view; empty before the view has results."""
        if self.api.describe(view).get("frontier") is None:
            return ()
        return self.api.execute(sql)[-1].rows

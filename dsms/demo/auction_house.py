"""An endless auction house: its streams, queries over them, and a generator of its records."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

CATEGORIES = ("art", "books", "coins", "furniture", "jewels", "toys")
#: How many auctions are open at once; the first ones get most of the bids.
OPEN = 40
STATEMENTS = (
    "REGISTER SOURCE auction_records (id INT NOT NULL, item VARCHAR, category VARCHAR, seller INT, reserve INT) "
    "FROM auctions PARTITIONS 2",
    "REGISTER SOURCE bid_records (auction INT NOT NULL, bidder INT, price INT) FROM bids PARTITIONS 2",
    "CREATE STREAM auctions OVER auction_records KEY id",
    "CREATE STREAM bids OVER bid_records KEY NULL",
    "CREATE VIEW best_bids AS SELECT auction, MAX(price) AS price, COUNT(*) AS bids FROM R(bids) GROUP BY auction",
    "CREATE VIEW over_reserve AS SELECT a.id, a.item, a.category, b.price FROM R(auctions) a "
    "JOIN best_bids b ON a.id = b.auction WHERE b.price >= a.reserve",
    "CREATE MATERIALIZED VIEW categories AS SELECT a.category, COUNT(*) AS bids, AVG(b.price) AS price FROM R(bids) b "
    "JOIN R(auctions) a ON a.id = b.auction GROUP BY a.category",
    "CREATE VIEW busiest AS SELECT auction, n, r FROM (SELECT auction, n, RANK() OVER (ORDER BY n DESC) AS r FROM "
    "(SELECT auction, COUNT(*) AS n FROM bids [Range 1 Minute Slide 1 Second] GROUP BY auction) c) x WHERE r <= 10",
    "CREATE MATERIALIZED VIEW leaders AS SELECT auction, n, r FROM (SELECT auction, n, RANK() OVER (ORDER BY n DESC) "
    "AS r FROM (SELECT auction, COUNT(*) AS n FROM bids [Range 1 Minute Slide 1 Second] GROUP BY auction) c) x "
    "WHERE r <= 3",
    "CREATE VIEW fast_bidders AS SELECT bidder, COUNT(*) AS bids FROM bids [Range 10 Seconds Slide 1 Second] "
    "GROUP BY bidder HAVING COUNT(*) >= 5",
)
_NOUNS = ("lamp", "map", "ring", "chair", "coin", "train", "print", "vase")


@dataclass(frozen=True)
class Event:
    """A record of one of the topics."""

    topic: str
    row: dict[str, object]


@dataclass
class House:
    """The open auctions. A bid is above the one before it; an auction that ends makes room for a new one."""

    draw: random.Random = field(default_factory=random.Random)
    prices: dict[int, int] = field(default_factory=dict)
    _last: int = 0

    def events(self, bids: int) -> Iterator[Event]:
        """Yields this many bids, and the auctions that they need.

        >>> events = list(House(random.Random(7)).events(100))
        >>> sum(event.topic == "bids" for event in events), events[0].topic
        (100, 'auctions')
        """
        for _ in range(bids):
            while len(self.prices) < OPEN:
                yield self._opened()
            if self.draw.random() < 1 / 300:
                del self.prices[next(iter(self.prices))]
            yield self._bid()

    def _opened(self) -> Event:
        self._last += 1
        start = self.draw.randrange(5, 200)
        self.prices[self._last] = start
        row = {
            "id": self._last, "item": f"{self.draw.choice(_NOUNS)} {self._last}", "seller": self.draw.randrange(50),
            "category": self.draw.choice(CATEGORIES), "reserve": start + self.draw.randrange(100),
        }  # fmt: skip
        return Event("auctions", row)

    def _bid(self) -> Event:
        open_ones = list(self.prices)
        auction = open_ones[min(int(self.draw.expovariate(0.15)), len(open_ones) - 1)]
        self.prices[auction] += self.draw.randrange(1, 6)
        bidder = min(int(self.draw.expovariate(0.01)), 999)
        return Event("bids", {"auction": auction, "bidder": bidder, "price": self.prices[auction]})

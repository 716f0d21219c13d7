"""NEXMark's events as frames: a pure function of the seed and the numbers of the events.

The distributions are those of nexmark/nexmark (persons, auctions and bids in the ratio 1:3:46, hot auctions, bidders
and sellers, 100 auctions in flight). The random numbers of nexmark/nexmark have no seed, so that its events have the
same distributions but other values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from benchmarks.nexmark.texts import COLD_CHANNELS, HOT_CHANNELS, fillings, pick, pools
from benchmarks.nexmark.timeline import FIRST_ID, IN_FLIGHT, Ints, Timeline, last_auction, last_person, numbers_of

#: Events are drawn in blocks of this size, each with its own seed, so that any block can be generated alone.
BLOCK = 100_000
KINDS = ("person", "auction", "bid")
SIZES = {"person": 200, "auction": 500, "bid": 100}
CATEGORIES, FIRST_CATEGORY = 5, 10
_HOT_EVERY, _ID_LEAD, _ACTIVE_PERSONS = 100, 10, 1_000
_HOT_AUCTION, _HOT_PERSON, _HOT_CHANNEL = 1 / 2, 3 / 4, 1 / 2
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")


@dataclass(frozen=True)
class Events:
    """The first `count` events of a seed, on a timeline.

    >>> events = Events(1_000)
    >>> {kind: events.frame(kind).height for kind in KINDS}
    {'person': 20, 'auction': 60, 'bid': 920}
    """

    count: int
    timeline: Timeline = field(default_factory=Timeline)
    seed: int = 7

    @property
    def end_ms(self) -> int:
        """The first instant after all events."""
        return self.timeline.end_ms(self.count)

    def frame(self, kind: str) -> pl.DataFrame:
        """All events of a kind."""
        return pl.concat(self.chunks(kind))

    def chunks(self, kind: str) -> Iterator[pl.DataFrame]:
        """All events of a kind, block by block."""
        for block in range(self.blocks):
            yield self.block(kind, block)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return (self.count + BLOCK - 1) // BLOCK

    def block(self, kind: str, block: int) -> pl.DataFrame:
        """The events of a kind in one block."""
        numbers = numbers_of(kind, block * BLOCK, BLOCK)
        rng = np.random.default_rng((self.seed, block, KINDS.index(kind)))
        frame = _MAKERS[kind](numbers, rng, self)
        return frame.head(int(np.searchsorted(numbers, self.count)))


def persons(numbers: Ints, rng: np.random.Generator, events: Events) -> pl.DataFrame:
    """The persons with these event numbers."""
    count, texts = len(numbers), pools(events.seed)
    first, last = (pick(rng, pl.Series(names), count) for names in (_FIRST_NAMES, _LAST_NAMES))
    frame = pl.DataFrame({
        "id": last_person(numbers) + FIRST_ID,
        "name": first + " " + last,
        "emailAddress": pick(rng, texts.words[7], count) + "@" + pick(rng, texts.words[5], count) + ".com",
        "creditCard": _cards(rng, count),
        "city": pick(rng, pl.Series(_CITIES), count),
        "state": pick(rng, pl.Series(_STATES), count),
        "dateTime": events.timeline.instants(numbers),
    })  # fmt: skip
    return _filled(frame, rng, events, "person", 8)


def auctions(numbers: Ints, rng: np.random.Generator, events: Events) -> pl.DataFrame:
    """The auctions with these event numbers. Three in four have a hot seller."""
    count, texts, instants = len(numbers), pools(events.seed), events.timeline.instants(numbers)
    first_price = prices(rng, count)
    hot = last_person(numbers) // _HOT_EVERY * _HOT_EVERY
    frame = pl.DataFrame({
        "id": last_auction(numbers) + FIRST_ID,
        "itemName": pick(rng, texts.words[20], count),
        "description": pick(rng, texts.words[100], count),
        "initialBid": first_price,
        "reserve": first_price + prices(rng, count),
        "dateTime": instants,
        "expires": instants + 1 + rng.integers(0, max(2 * events.timeline.horizon_ms(), 1), count),
        "seller": np.where(rng.random(count) < _HOT_PERSON, hot, _some_person(rng, numbers)) + FIRST_ID,
        "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, count),
    })  # fmt: skip
    return _filled(frame, rng, events, "auction", 48)


def bids(numbers: Ints, rng: np.random.Generator, events: Events) -> pl.DataFrame:
    """The bids with these event numbers. Half are on a hot auction, three in four are of a hot bidder.

    The first id is added twice to the ids of bidders, as in nexmark/nexmark.
    """
    count, texts = len(numbers), pools(events.seed)
    channel = _channels(rng, count)
    hot = last_person(numbers) // _HOT_EVERY * _HOT_EVERY + 1
    frame = pl.DataFrame({
        "auction": _some_auction(rng, numbers) + FIRST_ID,
        "bidder": np.where(rng.random(count) < _HOT_PERSON, hot, _some_person(rng, numbers)) + 2 * FIRST_ID,
        "price": prices(rng, count),
        "channel": texts.channels.gather(channel),
        "url": texts.urls.gather(channel),
        "dateTime": events.timeline.instants(numbers),
    })  # fmt: skip
    extra = fillings(rng, texts.letters, np.full(count, 32), SIZES["bid"])
    return frame.with_columns(extra.alias("extra"))


def prices(rng: np.random.Generator, count: int) -> Ints:
    """Prices from 100 to 10^8, with uniformly distributed logarithms."""
    return np.rint(10 ** (6 * rng.random(count)) * 100).astype(np.int64)


def _some_person(rng: np.random.Generator, numbers: Ints) -> Ints:
    """One of the active persons, or of the next few, who do not exist yet."""
    persons = last_person(numbers) + 1
    active = np.minimum(persons, _ACTIVE_PERSONS)
    chosen: Ints = persons - active + (rng.random(len(numbers)) * (active + _ID_LEAD)).astype(np.int64)
    return chosen


def _some_auction(rng: np.random.Generator, numbers: Ints) -> Ints:
    newest = last_auction(numbers)
    oldest = np.maximum(newest - IN_FLIGHT, 0)
    any_ = oldest + (rng.random(len(numbers)) * (newest - oldest + 1 + _ID_LEAD)).astype(np.int64)
    return np.where(rng.random(len(numbers)) < _HOT_AUCTION, newest // _HOT_EVERY * _HOT_EVERY, any_)


def _channels(rng: np.random.Generator, count: int) -> Ints:
    """Positions in the pool of channels."""
    cold = len(HOT_CHANNELS) + rng.integers(0, COLD_CHANNELS, count)
    return np.where(rng.random(count) < _HOT_CHANNEL, rng.integers(0, len(HOT_CHANNELS), count), cold)


def _cards(rng: np.random.Generator, count: int) -> pl.Series:
    groups = [pl.Series(f"g{at}", rng.integers(0, 10_000, count)).cast(pl.String).str.zfill(4) for at in range(4)]
    return pl.DataFrame(groups).select(pl.concat_str(pl.all(), separator=" ").alias("card"))["card"]


def _filled(
    frame: pl.DataFrame, rng: np.random.Generator, events: Events, kind: str, numbers_size: int
) -> pl.DataFrame:
    """Adds the column `extra`, which fills an event up to the size of its kind. A number has eight bytes."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    used = frame.select(pl.sum_horizontal(pl.col(texts).str.len_bytes()).cast(pl.Int64)).to_series().to_numpy()
    letters = pools(events.seed).letters
    return frame.with_columns(fillings(rng, letters, used + numbers_size, SIZES[kind]).alias("extra"))


_MAKERS: dict[str, Callable[[Ints, np.random.Generator, Events], pl.DataFrame]] = {
    "person": persons,
    "auction": auctions,
    "bid": bids,
}

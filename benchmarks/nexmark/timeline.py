"""The kind, time and id of each event as functions of its number: NEXMark's arithmetic, without randomness."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: Of fifty consecutive events the first is a person, the next three are auctions, the others bids.
EPOCH, PERSONS, AUCTIONS = 50, 1, 3
FIRST_ID = 1_000
#: The number of auctions in flight: a bid is on one of the newest auctions, and an auction ends within this many.
IN_FLIGHT = 100


@dataclass(frozen=True)
class Timeline:
    """When events happen: `rate` events a second from `first_ms` on.

    >>> Timeline(rate=1000).instants(np.array([0, 5]))
    array([1767225600000, 1767225600005])
    """

    rate: int = 10_000
    first_ms: int = 1_767_225_600_000

    def instants(self, numbers: Ints) -> Ints:
        """The event times in milliseconds."""
        return self.first_ms + numbers * 1_000 // self.rate

    def end_ms(self, events: int) -> int:
        """The first instant after the last of `events` events."""
        return int(self.instants(np.array([events - 1]))[0]) + 1

    def horizon_ms(self) -> int:
        """The time in milliseconds during which `IN_FLIGHT` auctions are opened."""
        return IN_FLIGHT * EPOCH // AUCTIONS * 1_000 // self.rate


def numbers_of(kind: str, first: int, count: int) -> Ints:
    """The numbers of the events of a kind among `count` events from number `first` on.

    >>> numbers_of("auction", 0, 53).tolist()
    [1, 2, 3, 51, 52]
    """
    numbers: Ints = np.arange(first, first + count, dtype=np.int64)
    chosen: Ints = numbers[kinds(numbers) == kind]
    return chosen


def kinds(numbers: Ints) -> NDArray[np.str_]:
    """The kind of each event."""
    offset = numbers % EPOCH
    return np.where(offset < PERSONS, "person", np.where(offset < PERSONS + AUCTIONS, "auction", "bid"))


def last_person(numbers: Ints) -> Ints:
    """The newest person at each event, counted from 0."""
    newest: Ints = numbers // EPOCH
    return newest


def last_auction(numbers: Ints) -> Ints:
    """The newest auction at each event, counted from 0; -1 before the first auction.

    >>> last_auction(np.array([0, 1, 3, 4, 49, 50, 51])).tolist()
    [-1, 0, 2, 2, 2, 2, 3]
    """
    newest: Ints = numbers // EPOCH * AUCTIONS + np.minimum(numbers % EPOCH, AUCTIONS) - 1
    return newest

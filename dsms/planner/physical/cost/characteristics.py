"""The characteristics of a stream of elements, and formulas by which each operator of PIPES changes them (Krämer's
thesis, section 22.2; formulas have the numbers of the thesis).

The characteristics are averages in a steady state. Values and times are assumed to be independent, groups and distinct
rows to be uniform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

#: With this many copies alive, a row is always present within the precision of floating-point numbers.
_MAX_COPIES = 50.0


@dataclass(frozen=True, slots=True)
class Characteristics:
    """A stream in which, on average, an element starts every `gap` instants and is valid for `length` instants. All
    instants are multiples of `granule`.

    >>> stream = Characteristics(gap=10, length=100)
    >>> stream.rate, stream.alive
    (0.1, 10.0)
    """

    gap: float
    length: float
    granule: float = 1.0

    def __post_init__(self) -> None:
        assert self.gap > 0 and self.length > 0 and self.granule > 0, self

    @property
    def rate(self) -> float:
        """Elements per instant."""
        return 1 / self.gap

    @property
    def alive(self) -> float:
        """Elements that are valid at an instant."""
        return self.length / self.gap


def filtered(stream: Characteristics, selectivity: float) -> Characteristics:
    """A filter that passes a fraction `selectivity` of the elements (22.1).

    >>> filtered(Characteristics(10, 100), 0.25)
    Characteristics(gap=40.0, length=100, granule=1.0)
    """
    return replace(stream, gap=stream.gap / selectivity)


def united(*streams: Characteristics) -> Characteristics:
    """The union of streams (22.3).

    >>> both = united(Characteristics(10, 100), Characteristics(5, 50))
    >>> round(both.gap, 4), round(both.length, 4)
    (3.3333, 66.6667)
    """
    rate = sum(stream.rate for stream in streams)
    length = sum(stream.length * stream.rate for stream in streams) / rate
    return Characteristics(1 / rate, length, max(stream.granule for stream in streams))


def joined(left: Characteristics, right: Characteristics, selectivity: float = 1.0) -> Characteristics:
    """A join: a fraction `selectivity` of the pairs that overlap in time (22.4; 22.22 for the rate).

    >>> joined(Characteristics(10, 500), Characteristics(20, 300))
    Characteristics(gap=0.25, length=187.5, granule=1.0)
    >>> round(joined(Characteristics(10, 500), Characteristics(20, 300), 0.1).rate, 9)
    0.4
    """
    lengths = left.length + right.length
    gap = left.gap * right.gap / (selectivity * lengths)
    return Characteristics(gap, left.length * right.length / lengths, max(left.granule, right.granule))


def without_duplicates(stream: Characteristics, distinct: float) -> Characteristics:
    """Duplicate elimination over `distinct` distinct rows (22.5).

    >>> [without_duplicates(Characteristics(10, 1000), distinct).length for distinct in (50, 200)]
    [500, 1000]
    """
    return replace(stream, length=min(distinct * stream.gap, stream.length))


def aggregated(stream: Characteristics) -> Characteristics:
    """One aggregate over the whole stream: a new value at every instant at which an element starts or ends (22.6).

    The expected number of distinct instants follows from Cardenas' formula. If `gap` is at least `length`, the stream
    is unchanged.

    >>> [round(aggregated(Characteristics(10, 1000, granule)).gap, 5) for granule in (1, 20)]
    [5.51416, 20.35806]
    >>> aggregated(Characteristics(100, 50))
    Characteristics(gap=100, length=50, granule=1.0)
    """
    if stream.gap >= stream.length:
        return stream
    gap = stream.granule / hit(stream, 2 * stream.alive)
    return Characteristics(gap, gap, stream.granule)


def grouped(stream: Characteristics, groups: float) -> Characteristics:
    """An aggregate for each of `groups` groups (22.7). Each group is a stream whose gap is `groups` times as long.

    >>> result = grouped(Characteristics(1, 1000), 20)
    >>> round(result.gap, 6), round(result.length, 5)
    (0.525167, 10.50334)
    """
    of_one = aggregated(replace(stream, gap=stream.gap * groups))
    return replace(of_one, gap=of_one.gap / groups)


def split(stream: Characteristics, length: float) -> Characteristics:
    """Cuts each element into pieces of at most `length` (22.8).

    >>> split(Characteristics(10, 100), 10)
    Characteristics(gap=1.0, length=10, granule=1.0)
    """
    if length >= stream.length:
        return stream
    return replace(stream, gap=stream.gap * length / stream.length, length=length)


def coarsened(stream: Characteristics, granule: float) -> Characteristics:
    """Rounds both ends of each element up to a coarser granule, and drops elements that become empty (22.9).

    >>> coarsened(Characteristics(10, 20), 100), coarsened(Characteristics(10, 200), 100)
    (Characteristics(gap=50.0, length=100, granule=100), Characteristics(gap=10, length=200, granule=100))
    """
    if granule <= stream.granule or stream.length >= granule:
        return replace(stream, granule=max(granule, stream.granule))
    return Characteristics(stream.gap * granule / stream.length, granule, granule)


def time_windowed(stream: Characteristics, length: float, slide: float = 1.0) -> Characteristics:
    """A window of the last `length` instants that moves by `slide` (22.10; a slide acts as in 22.9).

    >>> time_windowed(Characteristics(10, 1), 60)
    Characteristics(gap=10, length=60, granule=1.0)
    """
    return coarsened(replace(stream, length=length), slide)


def row_windowed(stream: Characteristics, rows: float, partitions: float = 1.0) -> Characteristics:
    """A window of the last `rows` elements of each of `partitions` partitions (22.11, 22.12).

    >>> row_windowed(Characteristics(10, 1), 50).length, row_windowed(Characteristics(10, 1), 50, 4).length
    (500.0, 2000)
    """
    return replace(stream, length=partitions * rows * stream.gap)


def changing_groups(stream: Characteristics, groups: float) -> Characteristics:
    """Like `grouped`, but without its discontinuity at one element for each group. With Poisson arrivals, a group is
    empty for a fraction e^-x of the time, where x is the number of its elements that are alive. The first element of an
    empty group replaces no result.

    >>> dense, sparse = Characteristics(1, 1000), Characteristics(1, 10)
    >>> round(changing_groups(dense, 20).gap, 4), round(grouped(dense, 20).gap, 4)
    (0.5254, 0.5252)
    >>> round(changing_groups(sparse, 1e6).gap, 4), round(changing_groups(sparse, 10).gap, 2), grouped(sparse, 10).gap
    (1.0, 0.68, 1.0)
    """
    of_one = replace(stream, gap=stream.gap * groups)
    empty = math.exp(-of_one.alive)
    changes = groups * -math.expm1(-2 * stream.granule * of_one.rate) / stream.granule
    rate = changes * (2 - empty) / 2
    return replace(stream, gap=1 / rate, length=groups * -math.expm1(-of_one.alive) / rate)


def distinct_rows(alive: float, present: float) -> float:
    """The number n of distinct rows, if `present` of them occur among `alive` elements. It solves n (1 - e^(-alive /
    n)) = present.

    >>> stream = Characteristics(1, 100)
    >>> round(distinct_rows(stream.alive, present(stream, 70).alive))
    70
    """
    if present >= alive:
        return alive * _MAX_COPIES
    least, most = 1 / _MAX_COPIES, _MAX_COPIES
    while most - least > least / _MAX_COPIES**2:
        copies = (least + most) / 2
        least, most = (copies, most) if -math.expm1(-copies) / copies > present / alive else (least, copies)
    return alive / least


def pending_ends(stream: Characteristics) -> float:
    """The expected number of distinct instants at which the elements that are alive end, by Cardenas' formula. This is
    the number of partial aggregates that PIPES keeps (22.30).

    >>> round(pending_ends(Characteristics(10, 1000)), 4), round(pending_ends(Characteristics(10, 1000, 20)), 4)
    (95.2079, 43.369)
    >>> round(pending_ends(Characteristics(20, 1000)), 4)
    48.7944
    """
    return stream.length / stream.granule * hit(stream, stream.alive)


def kept_by_join(left: Characteristics, right: Characteristics) -> float:
    """The elements in the state of a join (22.21, in elements instead of bytes): those that are alive, and ended ones,
    which stay until an element of the other side removes them. On average, these are half of the elements that arrive
    in between.

    >>> kept_by_join(Characteristics(10, 500), Characteristics(20, 300))
    66.25
    """
    return left.alive + right.gap / (2 * left.gap) + right.alive + left.gap / (2 * right.gap)


def present(stream: Characteristics, distinct: float) -> Characteristics:
    """Duplicate elimination over `distinct` distinct rows, as in this engine: one element for each period in which a
    row occurs at least once. PIPES has no formula for coalescing. With Poisson arrivals the period is the busy period
    of a queue with unlimited servers (M/D/∞), on average `gap · distinct · (e^x - 1)` instants, where x is the number
    of copies of a row that are alive.

    >>> often, seldom = present(Characteristics(1, 1000), 100), present(Characteristics(1, 1000), 1e6)
    >>> round(often.alive, 2), round(seldom.alive, 2), round(seldom.length, 2)
    (100.0, 999.5, 1000.5)
    """
    of_one = stream.gap * distinct
    copies = min(stream.length / of_one, _MAX_COPIES)
    return replace(stream, gap=stream.gap * math.exp(copies), length=of_one * math.expm1(copies))


def hit(stream: Characteristics, boundaries: float) -> float:
    """The probability that an instant is one of `boundaries` boundaries, which are spread over `length`.

    >>> hit(Characteristics(1, 4, granule=2), 1), hit(Characteristics(1, 1), 3)
    (0.5, 1.0)
    """
    part = min(stream.granule / stream.length, 1.0)
    return 1.0 if part == 1.0 else -math.expm1(boundaries * math.log1p(-part))

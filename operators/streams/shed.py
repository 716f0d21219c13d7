"""Shed: drops elements under load, and adds a share (a sampling weight) to the others, for unbiased estimates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, RESERVED, Delta
from operators.core.operator import Move, Step
from operators.core.stored_names import ADDED_LATER
from operators.kernels.random_fraction import key_checksums, random_fractions
from operators.state.trace import Trace
from operators.streams.preferred_values import Preferred
from operators.streams.settings import Settings, numbers_at, settings_at

#: The column with the number of elements that a kept element represents: the inverse of its probability of being kept.
SHARE = "__share"
#: The salt of shedding, which makes it independent of all samples.
_SALT = 1 << 20
#: How many rows are sampled to estimate how values and groups are distributed.
_SAMPLE_SIZE = 2048
#: The most values of a column that are counted in a sample.
_MOST_COUNTED = 1024
_KEY, _OPEN = "\0key", "\0open"


class Spread(msgspec.Struct, frozen=True, array_like=True):
    """An estimate about a group: the number of its `rows`; for each value its sum, and the sum of its squares over the
    rows that may be dropped (`sums`); the fraction of the rows that may be dropped (`part`)."""

    rows: float
    sums: tuple[tuple[float, float], ...] = ()
    part: float = 1.0


class ShedStatistics(msgspec.Struct, frozen=True, array_like=True):
    """Statistics of the input of a Shed: the number of `rows` and of those `kept`, the first and the last instant, an
    estimate for each group by the hash of its keys, and the fraction of the rows that may be dropped (`part`)."""

    rows: int
    kept: int
    first: int
    last: int
    groups: dict[int, Spread] = {}
    part: float = 1.0
    #: The number of rows with each of the most frequent values of the preferred column, by the value's CRC-32.
    counts: dict[int, float] = {}

    def with_rows_of(self, other: ShedStatistics) -> ShedStatistics:
        """The statistics of the input of two Sheds without groups, such as those of a stream that a query reads twice.

        >>> ShedStatistics(10, 5, 0, 3).with_rows_of(ShedStatistics(20, 8, 1, 7))
        ShedStatistics(rows=30, kept=13, first=0, last=7, groups={}, part=1.0, counts={})
        """
        first, last = min(self.first, other.first), max(self.last, other.last)
        return ShedStatistics(self.rows + other.rows, self.kept + other.kept, first, last)


@dataclass(frozen=True, slots=True)
class Value:
    """What a row adds to an aggregate: the value of `column`, or with `counts` 1 if the value is not NULL, or 1 without
    a column. Where the column `filter` is not TRUE it is 0. `mean`: the aggregate is an average."""

    column: str | None = None
    filter: str | None = None
    counts: bool = False
    mean: bool = False

    @property
    def of_row(self) -> pl.Expr:
        """What each row adds, as Float64."""
        value = pl.lit(1.0) if self.column is None else pl.col(self.column).cast(pl.Float64)
        if self.counts and self.column is not None:
            value = pl.col(self.column).is_not_null().cast(pl.Float64)
        if self.filter is not None:
            value = pl.when(pl.col(self.filter)).then(value)
        return value.fill_null(0.0)

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [name for name in (self.column, self.filter) if name is not None]


@dataclass(frozen=True, slots=True)
class Shed:
    """Linear and stateless: the rate at the position of an element's record is the probability that the element is
    kept, and its share is the inverse of the rate. So Σ x · share is an unbiased estimate of Σ x (Horvitz and Thompson,
    1952).

    Which elements are kept is a function of the log and the rates. The rates are not part of the operator's identity:
    they belong to `query` and are decided while it runs. `keys` are the grouping columns and `values` the values that
    are added up for each group; both are sampled to estimate the error. Rows whose column `where` is not TRUE are
    always kept.

    Whether a row is kept is decided by a pseudo-random number: by default that of its record's position, with `by` that
    of its values in these columns. So rows of several inputs that are equal in `by` are kept or left out together, if
    the rates are the same (universe sampling: Kandula et al., Quickr, SIGMOD 2016). With `prefers`, rates may depend on
    the value of this column, whose most frequent values are counted in samples.

    >>> from operators.streams.settings import settings_of
    >>> rows = Delta.of([("+", {"a": a}, a) for a in range(1000)])
    >>> shed = Shed("o7").under(settings_of(0, [(500, 0.25)])).step(rows, (), Move(0, 9)).delta
    >>> len(shed), shed.frame[SHARE].unique().sort().to_list(), shed.frame[SHARE].sum()
    (626, [1.0, 4.0], 1004.0)
    """

    operator_version: ClassVar[int] = 1
    query: str
    keys: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    where: str | None = None
    rates: Settings = field(default=(), repr=False, compare=False)
    by: tuple[str, ...] = field(default=(), metadata={ADDED_LATER: True})
    prefers: str = field(default="", metadata={ADDED_LATER: True})

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def under(self, settings: Settings) -> Shed:
        """Returns the same operator with these rates."""
        return replace(self, rates=settings)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """Returns the elements that are kept, with their shares."""
        orders = delta.frame[ORDER].to_numpy()
        rates = self._rates(delta.frame, orders)
        if self.where is not None:
            rates = np.where(self._open(delta.frame).to_numpy(), rates, 1.0)
        if (rates >= 1.0).all():
            return Step(_with_shares(delta.frame, np.ones(len(orders))))
        numbers = _checksums(delta.frame, self.by) if self.by else orders
        kept = random_fractions(numbers, _SALT) < rates
        return Step(_with_shares(delta.frame.filter(pl.Series(kept)), 1.0 / rates[kept]))

    def _rates(self, frame: pl.DataFrame, orders: np.ndarray) -> np.ndarray:
        """The rate of each row."""
        rates = settings_at(self.rates, orders)
        if not self.prefers or (rates >= 1.0).all():
            return rates
        values, numbers = _checksums(frame, (self.prefers,)), numbers_at(self.rates, orders)
        for number, (_, fraction) in enumerate(self.rates):
            if isinstance(fraction, Preferred):
                rates = np.where(numbers == number, fraction.rates(values), rates)
        return rates

    def statistics(self, delta: Delta, kept: int) -> ShedStatistics | None:
        """Describes a delta of which `kept` elements were kept; None if it is empty."""
        if not len(delta):
            return None
        first, last = delta.frame.select(pl.col(FROM).min(), pl.col(FROM).max().alias("last")).row(0)
        part = 1.0 if self.where is None else int(self._open(delta.frame).sum()) / len(delta)
        groups = self._groups(delta.frame) if self.keys or self.values else {}
        return ShedStatistics(len(delta), kept, first, last, groups, part, self._counts(delta.frame))

    def _counts(self, frame: pl.DataFrame) -> dict[int, float]:
        """Returns how often the most frequent values of the preferred column occur, estimated from evenly spaced
        rows."""
        if not self.prefers:
            return {}
        sample, times = _sampled(frame)
        counts = Counter(_checksums(sample, (self.prefers,)).tolist())
        return {value: count * times for value, count in counts.most_common(_MOST_COUNTED)}

    def _open(self, frame: pl.DataFrame) -> pl.Series:
        """A mask of the rows that may be dropped."""
        always = pl.repeat(True, frame.height, eager=True)
        return always if self.where is None else frame[self.where].fill_null(False)

    def _groups(self, frame: pl.DataFrame) -> dict[int, Spread]:
        """Returns the groups, estimated from evenly spaced rows and scaled to all rows."""
        sample, times = _sampled(frame)
        hashes = sample.select(self.keys).hash_rows() if self.keys else pl.Series(np.zeros(sample.height, np.uint64))
        contributions = sample.with_columns(hashes.alias(_KEY), self._open(sample).alias(_OPEN)).select(
            _KEY, _OPEN, *_each(self.values)
        )
        summed = contributions.group_by(_KEY).agg(
            pl.len().alias("rows"), pl.col(_OPEN).mean(), *_sums(self.values, self.where)
        )
        return {key: _spread(times, rows, part, sums) for key, rows, part, *sums in summed.iter_rows()}


def _sampled(frame: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """Evenly spaced rows, and how many rows each of them stands for."""
    sample = frame.gather_every(1 + frame.height // _SAMPLE_SIZE)
    return sample, frame.height / sample.height


def _checksums(frame: pl.DataFrame, names: tuple[str, ...]) -> np.ndarray:
    """The checksum of each row's values in these columns: the same for values that are equal in SQL, also 0.0 and
    -0.0."""
    floats = pl.col(pl.Float32, pl.Float64)
    same_zeros = pl.when(floats.ne_missing(0)).then(floats).otherwise(0)
    return key_checksums(frame.select(names).with_columns(same_zeros), names)


@lru_cache(256)
def _each(values: tuple[Value, ...]) -> list[pl.Expr]:
    """Returns what a row adds to each value, by the number of the value. Cached, because building the expressions takes
    longer than evaluating them."""
    return [value.of_row.alias(str(at)) for at, value in enumerate(values)]


@lru_cache(256)
def _sums(values: tuple[Value, ...], where: str | None) -> list[pl.Expr]:
    """Returns the sums of each value and of its squares, alternately."""
    return [power for at, value in enumerate(values) for power in _powers(str(at), value, where)]


def _powers(name: str, value: Value, where: str | None) -> tuple[pl.Expr, pl.Expr]:
    """Returns the sum of a value, and the sum of its squares over the rows that may be dropped. Dropping a row also
    shifts a mean by the row's distance from it. If all rows may be dropped, the squares of the values account for that;
    otherwise (`where`), the greater of value and distance is squared."""
    column = pl.col(name)
    size = (
        pl.max_horizontal(column.abs(), (column - column.mean()).abs()) if value.mean and where is not None else column
    )
    squares = size * size if where is None else (size * size).filter(pl.col(_OPEN))
    return column.sum(), squares.sum().alias(f"{name} squares")


def _spread(times: float, rows: int, part: float, sums: list[float]) -> Spread:
    scaled = [total * times for total in sums]
    return Spread(rows * times, tuple(zip(scaled[::2], scaled[1::2], strict=True)), part)


def _with_shares(frame: pl.DataFrame, shares: np.ndarray) -> Delta:
    """Returns the elements with their shares in a column after those of the row."""
    row = [name for name in frame.columns if name not in RESERVED]
    return Delta(frame.select(*row, pl.Series(SHARE, shares, pl.Float64), *RESERVED))

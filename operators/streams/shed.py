"""Shed: elements that are left out under load, the others with what each stands for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, ORDER_SHIFT, RESERVED, SOURCE_SHIFT, Delta
from operators.core.operator import Move, Step
from operators.kernels.random_fraction import random_fractions
from operators.state.trace import Trace

#: The column that says how many elements one stands for: the inverse of the chance that it had to stay.
SHARE = "__share"
#: The salt of what is left out: independent of all samples.
_SALT = 1 << 20
#: So many rows are looked at to know how values and groups are spread.
_LOOKED_AT = 2048
_PLACE = (1 << SOURCE_SHIFT) - 1
_KEY, _OPEN = "\0key", "\0open"
#: From an offset of a partition on, this part of the records stays.
Rate = tuple[int, float]
#: Rates by place (partition and offset as one number), ascending.
Rates = tuple[tuple[int, float], ...]


def rates_of(partition: int, rates: Iterable[Rate]) -> Rates:
    """The rates of a partition by place. Before the first one all records stay.

    >>> rates_of(1, [(5, 0.5)]) == ((1 << 45, 1.0), ((1 << 45) + 5, 0.5))
    True
    """
    first = partition << ORDER_SHIFT
    return ((first, 1.0), *((first + offset, rate) for offset, rate in rates))


class Spread(msgspec.Struct, frozen=True, array_like=True):
    """What was seen of the rows of a group: how many; the sum of each value, and that of its squares over the rows that
    may be left out; which part of the rows these are."""

    rows: float
    sums: tuple[tuple[float, float], ...] = ()
    part: float = 1.0


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """What came to a Shed: rows, those that stayed, the first and the last instant, how the groups are spread over the
    rows, by a hash of their keys, and which part of the rows may be left out."""

    rows: int
    kept: int
    first: int
    last: int
    groups: dict[int, Spread] = {}
    part: float = 1.0


@dataclass(frozen=True, slots=True)
class Value:
    """What a row adds to an aggregate: its column, or 1 (`counts`) where that is there; without a column 1. Nothing
    where the column `filter` is not TRUE. Of a `mean` its distance from that counts, too."""

    column: str | None = None
    filter: str | None = None
    counts: bool = False
    mean: bool = False

    @property
    def of_row(self) -> pl.Expr:
        """What a row adds."""
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
    """Linear and stateless: each element stays with the chance that the rate at its record's place gives it, and has
    the inverse of that as its share. So the sum of x · share estimates that of x without bias (Horvitz, Thompson).

    Which elements stay is a function of the log and of the rates. The rates are no part of what the operator is: they
    are those of `query`, decided while it runs. `keys` are the groups and `values` what is added up in them: to know
    the error they are looked at. Rows of which the column `where` is not TRUE stay at every rate.

    >>> rows = Delta.of([("+", {"a": a}, a) for a in range(1000)])
    >>> shed = Shed("o7").under(rates_of(0, [(500, 0.25)])).step(rows, (), Move(0, 9)).delta
    >>> len(shed), shed.frame[SHARE].unique().sort().to_list(), shed.frame[SHARE].sum()
    (626, [1.0, 4.0], 1004.0)
    """

    operator_version: ClassVar[int] = 1
    query: str
    keys: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    where: str | None = None
    rates: Rates = field(default=(), repr=False, compare=False)

    def traces(self) -> tuple[Trace, ...]:
        """None: the operator is stateless."""
        return ()

    def under(self, rates: Rates) -> Shed:
        """The same with rates."""
        return replace(self, rates=rates)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements that stay."""
        orders = delta.frame[ORDER].to_numpy()
        rates = self._at(orders & _PLACE)
        if self.where is not None:
            rates = np.where(self._open(delta.frame).to_numpy(), rates, 1.0)
        if (rates >= 1.0).all():
            return Step(_with_shares(delta.frame, np.ones(len(orders))))
        kept = random_fractions(orders, _SALT) < rates
        return Step(_with_shares(delta.frame.filter(pl.Series(kept)), 1.0 / rates[kept]))

    def seen(self, delta: Delta, kept: int) -> Seen | None:
        """What came with a delta of which so many elements stayed; None where nothing came."""
        if not len(delta):
            return None
        first, last = delta.frame.select(pl.col(FROM).min(), pl.col(FROM).max().alias("last")).row(0)
        part = 1.0 if self.where is None else int(self._open(delta.frame).sum()) / len(delta)
        return Seen(len(delta), kept, first, last, self._groups(delta.frame), part)

    def _open(self, frame: pl.DataFrame) -> pl.Series:
        """Which rows may be left out."""
        always = pl.repeat(True, frame.height, eager=True)
        return always if self.where is None else frame[self.where].fill_null(False)

    def _at(self, places: np.ndarray) -> np.ndarray:
        if not self.rates:
            return np.ones(len(places))
        known, rates = (np.array(column) for column in zip(*self.rates, strict=True))
        at = np.searchsorted(known, places, side="right") - 1
        found: np.ndarray = np.where(at >= 0, rates[np.maximum(at, 0)], 1.0)
        return found

    def _groups(self, frame: pl.DataFrame) -> dict[int, Spread]:
        """By a look at some rows, evenly spaced; the numbers are those of all."""
        some = frame.gather_every(1 + frame.height // _LOOKED_AT)
        times = frame.height / some.height
        hashes = some.select(self.keys).hash_rows() if self.keys else pl.Series(np.zeros(some.height, np.uint64))
        each = some.with_columns(hashes.alias(_KEY), self._open(some).alias(_OPEN)).select(
            _KEY, _OPEN, *_each(self.values)
        )
        summed = each.group_by(_KEY).agg(pl.len().alias("rows"), pl.col(_OPEN).mean(), *_sums(self.values, self.where))
        return {key: _spread(times, rows, part, found) for key, rows, part, *found in summed.iter_rows()}


@lru_cache(256)
def _each(values: tuple[Value, ...]) -> list[pl.Expr]:
    """What a row adds to each value, by its number; made once, for that takes longer than to compute it."""
    return [value.of_row.alias(str(at)) for at, value in enumerate(values)]


@lru_cache(256)
def _sums(values: tuple[Value, ...], where: str | None) -> list[pl.Expr]:
    """The sums of values and of squares, in turn."""
    return [power for at, value in enumerate(values) for power in _powers(str(at), value, where)]


def _powers(name: str, value: Value, where: str | None) -> tuple[pl.Expr, pl.Expr]:
    """The sum of a value and that of its squares where rows may be left out. A row that is left out also moves a mean
    by what it is away from it; where all rows may go that is no more than the squares."""
    one = pl.col(name)
    size = pl.max_horizontal(one.abs(), (one - one.mean()).abs()) if value.mean and where is not None else one
    squares = size * size if where is None else (size * size).filter(pl.col(_OPEN))
    return one.sum(), squares.sum().alias(f"{name} squares")


def _spread(times: float, rows: int, part: float, sums: list[float]) -> Spread:
    scaled = [one * times for one in sums]
    return Spread(rows * times, tuple(zip(scaled[::2], scaled[1::2], strict=True)), part)


def _with_shares(frame: pl.DataFrame, shares: np.ndarray) -> Delta:
    """The shares after the columns of the row."""
    row = [name for name in frame.columns if name not in RESERVED]
    return Delta(frame.select(*row, pl.Series(SHARE, shares, pl.Float64), *RESERVED))

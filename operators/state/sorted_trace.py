"""SortedTrace: a trace that keeps the rows of each key sorted, to find the first ones without reading the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, TO, WEIGHT, Delta
from operators.core.run import HASH, Arrangement, Run, key_hash
from operators.core.sort_key import SortKey
from operators.kernels.equal_join import equal_join
from operators.state.bound import expired
from operators.state.cascade import cascade, rewritten

_KEY, _COUNT, _TAKE, _CUT, _PLACE = "__sorted_key", "__sorted_count", "__sorted_take", "__sorted_cut", "__sorted_place"
_BEHIND = "__sorted_behind"


@dataclass(frozen=True)
class SortedTrace:
    """The relation that all appended changes add up to, with each key's rows sorted by `order`, ties by the row's other
    columns.

    Instants are not kept: changes are valid from the moment they are appended. `best(keys, n)` returns the first rows
    of each key whose multiplicities add up to n. It takes O(n log |state|) for each key, unless later runs cancel most
    of the rows before these in a run and `behind` does not say where the cancelled rows end. `bound` names a column of
    integers or times: rows with `bound ≤ frontier` are never looked up again.

    >>> trace = SortedTrace(("k",), (SortKey("v", descending=True),))
    >>> trace = trace.append(Delta.of([("+", {"k": "a", "v": v}, 5) for v in (1, 3, 2)]), 6)
    >>> trace = trace.append(Delta.of([("-", {"k": "a", "v": 3}, 6)]), 7)
    >>> trace.best(pl.DataFrame({"k": ["a", "b"]}), 1).rows()
    [('a', 2, 1)]
    """

    keys: tuple[str, ...]
    order: tuple[SortKey, ...]
    runs: tuple[Run, ...] = ()
    bound: str | None = None
    arrangement: Arrangement = "key"

    def append(self, delta: Delta, frontier: int) -> SortedTrace:
        """Returns the trace with the weights of `delta` added at any instants: O(|Δ| log |state|) amortised."""
        if not len(delta):
            return self
        added = delta.frame.drop(FROM, TO, ORDER, strict=False)
        run = self._run(added.with_columns(key_hash(added, self.keys)), frontier)
        held = (*self._without_expired(frontier), run)
        return replace(self, runs=cascade(held, partial(self._merge, frontier)))

    def best(
        self,
        keys: pl.DataFrame,
        n: pl.Series | int | None = None,
        behind: pl.Series | None = None,
        *,
        copies: bool = True,
    ) -> pl.DataFrame:
        """Returns the first rows of each key, in order, with their multiplicities in `__weight`. The columns are those
        appended, or only those of the key if nothing was ever appended.

        `keys` has a row for each key. `n` is the number of wanted rows, for all keys or for each (None: all rows). It
        counts copies, and the last row's multiplicity is reduced to fit; without `copies`, it counts distinct rows.
        `behind` has a value for each key: the caller promises that no present row precedes it in the order's first
        column; NULL promises nothing.
        """
        if not self.runs:
            return keys.select(self.keys).clear()
        height = keys.height if self.keys else 1
        counts = n if isinstance(n, pl.Series) else pl.repeat(n, height, dtype=pl.Int64, eager=True)
        hashes = key_hash(keys, self.keys) if self.keys else pl.Series(HASH, [0], pl.UInt64)
        named = keys.select(self.keys).get_columns()
        known = [] if behind is None else [_promised(behind)]
        wanted = pl.DataFrame([*named, hashes, counts.cast(pl.Int64).alias(_COUNT), *known])
        rounds = [*self._rounds(wanted.with_row_index(_KEY), copies=copies)]
        return pl.concat(rounds).drop(HASH, _KEY, _COUNT) if len(rounds) > 1 else rounds[0].drop(HASH, _KEY, _COUNT)

    def _rounds(self, wanted: pl.DataFrame, *, copies: bool) -> Iterator[pl.DataFrame]:
        """Yields rows once all wanted rows of their key are known; for the other keys, reads twice as many rows from
        every run in the next round."""
        factor, counted = 1, pl.col(WEIGHT) if copies else pl.col(WEIGHT).clip(upper_bound=1)
        while wanted.height:
            exact, cut = self._exact(wanted, factor)
            total = exact.group_by(_KEY).agg(counted.sum())
            short = wanted.join(total, on=_KEY, how="left").filter(pl.col(WEIGHT).fill_null(0) < pl.col(_COUNT))
            again = short.filter(pl.col(HASH).is_in(cut)).drop(WEIGHT)
            decided = exact.join(again, on=_KEY, how="anti", maintain_order="left") if again.height else exact
            left = pl.col(_COUNT) - counted.cum_sum().over(_KEY) + counted
            kept = pl.min_horizontal(WEIGHT, left) if copies else pl.col(WEIGHT)
            yield decided.with_columns(kept.alias(WEIGHT), left.alias(_COUNT)).filter(
                (pl.col(_COUNT) > 0).fill_null(True)
            )
            wanted, factor = again, factor * 2

    def _exact(self, wanted: pl.DataFrame, factor: int) -> tuple[pl.DataFrame, pl.Series]:
        """Returns the current rows before the first position at which the rows of a run were cut off, and the hashes of
        the keys of which rows were cut off."""
        skips = _BEHIND in wanted.columns and _searchable(wanted[_BEHIND])
        limits = wanted.group_by(HASH).agg(pl.col(_COUNT).max() * factor + 1, *(self._hash_behind() if skips else ()))
        limits = limits.sort(HASH)
        takes = limits[_COUNT].fill_null(np.iinfo(np.int64).max).to_numpy()
        order = self.order[0] if skips else None
        fetched = pl.concat([_head(run, limits, takes, order) for run in self.runs])
        ordered = self._sorted(fetched)
        place = _places(ordered, [HASH, *self._columns(ordered, self.keys)])
        ordered = ordered.with_columns(pl.Series(_PLACE, place))
        cuts = ordered.filter(_CUT).group_by(HASH).agg(pl.col(_PLACE).min().alias(_TAKE))
        certain = ordered.join(cuts, on=HASH, how="left", maintain_order="left") if cuts.height else ordered
        if cuts.height:
            certain = certain.filter((pl.col(_PLACE) < pl.col(_TAKE)).fill_null(True)).drop(_TAKE)
        net = _net(certain.drop(_CUT, _PLACE), [*self.keys, *self._columns(fetched, self.keys)])
        ids = wanted.select(*self.keys, _KEY, _COUNT, *([] if self.keys else [HASH]))
        return equal_join(net, ids, self.keys or [HASH], "inner"), cuts[HASH]

    def _hash_behind(self) -> tuple[pl.Expr]:
        """Returns what `behind` promises for all keys with the same hash."""
        behind = pl.col(_BEHIND)
        first = behind.max() if self.order[0].descending else behind.min()
        return (pl.when(behind.null_count() == 0).then(first).alias(_BEHIND),)

    def _columns(self, frame: pl.DataFrame, without: Sequence[str] = ()) -> list[str]:
        """Returns the columns by which the rows of a key are sorted."""
        first = [key.column for key in self.order if key.column not in without]
        others = {*first, *without, HASH, WEIGHT, _CUT, _PLACE}
        return [*dict.fromkeys(first), *sorted(name for name in frame.columns if name not in others)]

    def _sorted(self, frame: pl.DataFrame) -> pl.DataFrame:
        columns = self._columns(frame, self.keys)
        by_column = {key.column: key for key in reversed(self.order)}
        keys = [by_column.get(column, SortKey(column)) for column in columns]
        return frame.sort(
            [HASH, *columns],
            descending=[False, *(key.descending for key in keys)],
            nulls_last=[False, *(key.nulls_last for key in keys)],
        )

    def _run(self, frame: pl.DataFrame, frontier: int) -> Run:
        alive = frame.filter(~expired(frame[self.bound], frontier)) if self.bound else frame
        ordered = self._sorted(alive)
        return Run(_net(ordered, [*self._columns(ordered, self.keys), *self.keys]), "key")

    def _merge(self, frontier: int, runs: Sequence[Run]) -> Run:
        return self._run(pl.concat([run.frame for run in runs]), frontier)

    def _without_expired(self, frontier: int) -> Iterable[Run]:
        if (bound := self.bound) is None:
            return self.runs

        def dead(frame: pl.DataFrame) -> pl.Series:
            return expired(frame[bound], frontier)

        return rewritten(self.runs, dead, lambda run: run.without(dead))


def _head(run: Run, limits: pl.DataFrame, takes: np.ndarray, order: SortKey | None) -> pl.DataFrame:
    """Returns the first `takes` rows of each hash in a run; `_CUT` marks the last of them if there are more.

    With an `order`, rows that precede the hash's `_BEHIND` are skipped.
    """
    low, counts = run.matches(limits[HASH].to_numpy())
    if order is not None and _searchable(run.frame[order.column]):
        skipped = _before(run.frame[order.column], low, counts, limits[_BEHIND], order.descending)
        low, counts = low + skipped, counts - skipped
    taken = np.minimum(counts, takes)
    ends = np.cumsum(taken)
    cut = np.zeros(ends[-1] if len(ends) else 0, np.bool_)
    cut[ends[taken < counts] - 1] = True
    rows = np.repeat(low - (ends - taken), taken) + np.arange(len(cut))
    return run.frame[rows].with_columns(pl.Series(_CUT, cut))


def _promised(behind: pl.Series) -> pl.Series:
    """Returns the promises as physical values; NaN, which cannot be compared, promises nothing."""
    plain = behind.to_physical().alias(_BEHIND)
    return plain.fill_nan(None) if plain.dtype.is_float() else plain


def _searchable(values: pl.Series) -> bool:
    """Whether the physical values are numbers that NumPy can represent."""
    dtype = values.to_physical().dtype
    return (dtype.is_integer() or dtype.is_float()) and dtype not in (pl.Int128, pl.UInt128)


def _before(column: pl.Series, low: np.ndarray, counts: np.ndarray, behind: pl.Series, descending: bool) -> np.ndarray:
    """Returns how many of the sorted values of each range precede the value of `behind`, by a binary search in all
    ranges at once; 0 if NumPy cannot read the values without copying them.

    A row is skipped only if it, or a row after it, precedes the value. NaNs may cause too few rows to be skipped, but
    never too many.
    """
    if column.null_count() or column.n_chunks() > 1:
        return np.zeros(len(low), np.int64)
    values, limits = column.to_physical().to_numpy(), behind.fill_null(0).to_numpy()
    begin, end = low.copy(), np.where(behind.is_null().to_numpy(), low, low + counts)
    while len(wide := np.flatnonzero(begin < end)):
        middle = (begin[wide] + end[wide]) // 2
        before = values[middle] > limits[wide] if descending else values[middle] < limits[wide]
        begin[wide] = np.where(before, middle + 1, begin[wide])
        end[wide] = np.where(before, end[wide], middle)
    skipped: np.ndarray = begin - low
    return skipped


def _places(ordered: pl.DataFrame, columns: list[str]) -> np.ndarray:
    """Returns, for each row of a sorted frame, the number, from 1, of its group of rows that are equal in `columns`."""
    return np.cumsum(~same_as_before(ordered, columns))


def same_as_before(ordered: pl.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Whether each row equals the previous one in `columns`; NULLs are equal, and the first row equals no other.

    >>> same_as_before(pl.DataFrame({"a": [None, None, 1]}), ["a"]).tolist()
    [False, True, False]
    """
    if not ordered.height:
        return np.zeros(0, np.bool_)
    if not columns:
        return np.arange(ordered.height) > 0
    equal = pl.all_horizontal([pl.col(name).eq_missing(pl.col(name).shift(1)) for name in columns])
    same = ordered.select(equal.alias("__same"))["__same"].to_numpy().copy()
    same[0] = False
    return np.asarray(same)


def _net(ordered: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Adds up adjacent equal rows, and drops zeros."""
    same = same_as_before(ordered, [HASH, *columns])
    if not same.any():
        return ordered if (ordered[WEIGHT] != 0).all() else ordered.filter(pl.col(WEIGHT) != 0)
    starts = np.flatnonzero(~same)
    weights = pl.Series(WEIGHT, np.add.reduceat(ordered[WEIGHT].to_numpy(), starts))
    return ordered[starts].with_columns(weights).filter(pl.col(WEIGHT) != 0)

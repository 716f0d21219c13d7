"""The order of the rows of a table by some columns, in which ranges of values are found by bisection."""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dsms.tables.equal_values import whole_number
from dsms.tables.sought_values import Constant, Sought, SoughtValues

#: The most combinations of values that are looked up one by one.
_MOST = 1_000
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 times of columns have no zone
#: A value with its place in the order: numbers before NaN, which is before NULL, as DuckDB compares them.
Rank = tuple[int, Any]
_NAN, _NULL = (1, 0), (2, 0)


@dataclass(frozen=True)
class Seek:
    """What is sought in the rows of an object, and the columns of the indexes on it by the names of the indexes."""

    indexes: Mapping[str, tuple[str, ...]]
    sought: SoughtValues

    def usable(self, schema: pa.Schema) -> str | None:
        """The index of which most first columns are sought, for rows with this schema; None if no index is of use."""
        used = {name: self._used(columns, schema) for name, columns in self.indexes.items()}
        return max(used, key=lambda name: used[name]) if any(used.values()) else None

    def _used(self, columns: Sequence[str], schema: pa.Schema) -> float:
        """How many of the first columns are sought by values; a range counts as half a column, and ends the count."""
        count = 0.0
        for column in columns if {*columns} <= {*schema.names} else ():
            ranks = _ranks(schema.field(column).type, self.sought.get(column.lower(), Sought()))
            if ranks is None or not ranks[0]:
                return count + 0.5 * (ranks is not None and ranks[1:] != (None, None))
            count += 1
        return count


class SortedIndex:
    """Finds rows of one table. It takes 8 bytes a row, and a copy of the indexed columns.

    >>> index = SortedIndex(pa.table({"a": [3, 1, None, 2]}), ["a"])
    >>> index.places({"a": Sought(least=2)})
    [3, 0]
    """

    def __init__(self, rows: pa.Table, columns: Sequence[str]) -> None:
        self._names = [column.lower() for column in columns]
        self._types = [rows.schema.field(column).type for column in columns]
        values = [_ordered(rows.column(column)) for column in columns]
        table = pa.table(dict(zip(map(str, range(len(values))), values, strict=True)))
        self._order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
        self._values = values

    @property
    def memory(self) -> int:
        """The bytes of the order and of the copied columns."""
        return int(self._order.nbytes) + sum(int(values.nbytes) for values in self._values)

    def places(self, sought: SoughtValues) -> list[int] | None:
        """The numbers of the rows that have the sought values, and maybe of others; None if the first column of the
        index is not sought, or not by values of its type."""
        if not (spans := list(self._spans(sought))):
            return None
        return [place for start, end in spans for place in self._order.slice(start, end - start).to_numpy().tolist()]

    def count(self, sought: SoughtValues) -> int | None:
        """How many rows `places` returns."""
        spans = list(self._spans(sought))
        return sum(end - start for start, end in spans) if spans else None

    def _spans(self, sought: SoughtValues) -> Iterator[tuple[int, int]]:
        """The ranges of the order, by a list of values for each of the first columns, and a range of the next one."""
        prefixes: list[tuple[Rank, ...]] = [()]
        for at, name in enumerate(self._names):
            found = _ranks(self._types[at], sought.get(name, Sought()))
            if found is None:
                break
            values, least, greatest = found
            if not values or len(values) * len(prefixes) > _MOST:
                if least is not None or greatest is not None:
                    yield from (
                        self._span((*prefix, least or (0,)), (*prefix, greatest or _NAN)) for prefix in prefixes
                    )
                    return
                break
            prefixes = [(*prefix, value) for prefix in prefixes for value in values]
        if prefixes != [()]:
            yield from (self._span(prefix, prefix) for prefix in prefixes)

    def _span(self, least: tuple[Any, ...], greatest: tuple[Any, ...]) -> tuple[int, int]:
        places = range(len(self._order))
        start = bisect_left(places, least, key=partial(self._key, len(least)))
        return start, max(start, bisect_right(places, greatest, key=partial(self._key, len(greatest))))

    def _key(self, columns: int, place: int) -> tuple[Rank, ...]:
        row = self._order[place].as_py()
        return tuple(_rank(values[row].as_py()) for values in self._values[:columns])


def indexable(kind: pa.DataType) -> bool:
    """Whether an index can have columns of a type."""
    return kind in _READERS or pa.types.is_signed_integer(kind) or pa.types.is_decimal(kind)


def _rank(value: Any) -> Rank:
    if value is None:
        return _NULL
    return _NAN if isinstance(value, float) and math.isnan(value) else (0, value)


def _ordered(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """The values as one array, dates and times as numbers. Texts of any total size fit into one array."""
    if column.type == pa.string():
        return column.cast(pa.large_string()).combine_chunks()
    if column.type == pa.date32():
        return column.combine_chunks().cast(pa.int32())
    return column.combine_chunks().cast(pa.int64()) if column.type == pa.timestamp("us") else column.combine_chunks()


def _ranks(kind: pa.DataType, sought: Sought) -> tuple[list[Rank], Rank | None, Rank | None] | None:
    """The distinct values in order, the least and the greatest one; None if they cannot be compared with the type."""
    read = _READERS.get(kind) or (_whole if pa.types.is_signed_integer(kind) else _decimal)
    values: list[Any] = [read(value) for value in sought.values]
    least, greatest = (None if end is None else read(end) for end in (sought.least, sought.greatest))
    ends = [(end, value) for end, value in ((sought.least, least), (sought.greatest, greatest)) if end is not None]
    if None in values or any(value is None for _, value in ends):
        return None
    ranked = [(0, value) for value in sorted({value for value in values if value is not None})]
    return ranked, None if least is None else (0, least), None if greatest is None else (0, greatest)


def _whole(value: Constant) -> int | Decimal | None:
    return value if isinstance(value, Decimal) else whole_number(value)


def _decimal(value: Constant) -> Decimal | None:
    return None if isinstance(value, str) else Decimal(value)


def _float(value: Constant) -> float | None:
    """The nearest float; None for a text, and for a number beyond all floats."""
    try:
        return None if isinstance(value, str) else float(value)
    except OverflowError:
        return None


def _text(value: Constant) -> str | None:
    return value if isinstance(value, str) else None


def _moment(value: Constant, unit: dt.timedelta) -> int | None:
    try:
        return (dt.datetime.fromisoformat(str(value)) - _EPOCH) // unit if isinstance(value, str) else None
    except (ValueError, TypeError):  # no time, or one with a zone
        return None


def _day(value: Constant) -> int | None:
    return _moment(value, dt.timedelta(days=1)) if isinstance(value, str) and len(value) == len("2026-05-01") else None


_READERS: Mapping[pa.DataType, Callable[[Constant], Any]] = {
    pa.float64(): _float,
    pa.string(): _text,
    pa.date32(): _day,
    pa.timestamp("us"): partial(_moment, unit=dt.timedelta(microseconds=1)),
}

"""Rows: a local table of one group, with an index on each set of columns that statements compare by equality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

#: The limit of the rows of a local table of a group.
MAX_ROWS: Final = 1_000_000
Row = list[object]


class LimitReached(Exception):
    """A call exceeded its limit of steps, rows or characters of text."""


class NumberedRows(dict[int, Row]):
    """Rows by number; iterates over pairs of number and row, in the order of insertion."""

    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[int, Row]]:  # type: ignore[override]
        return iter(sorted(self.items()))


#: The entry of an index for a key: one row with its number, or several.
Found = list[tuple[int, Row]] | NumberedRows


class Rows:
    """A table as a dict from row numbers, which ascend in the order of insertion, to rows.

    `before` has the old versions of the rows that changed since the table was loaded (None: a new row). Code may change
    columns that are in no index in place, after it has stored the old version of the row in `before`. `find` has a
    function for each index: it maps a key without NULLs to the rows that have it, as pairs (number, row).

    >>> table = Rows([(0,)])
    >>> table.insert(["a", 1])
    >>> table.insert(["b", 2])
    >>> table.find[0](("b",)), table.find[0](("c",), ())
    ([(1, ['b', 2])], ())
    """

    __slots__ = ("_indexes", "before", "find", "next_number", "rows")

    def __init__(self, indexed: Sequence[tuple[int, ...]] = (), rows: Iterable[tuple[int, Row]] = ()) -> None:
        self.rows: dict[int, Row] = {}
        self.before: dict[int, tuple[object, ...] | None] = {}
        self.next_number = 0
        self._indexes: list[tuple[tuple[int, ...], dict[tuple[object, ...], Found]]] = [
            (columns, {}) for columns in indexed
        ]
        self.find = [index.get for _, index in self._indexes]
        for number, row in rows:
            self._put(number, row)
            self.next_number = number + 1

    def insert(self, row: Row) -> None:
        """Appends a row. Raises LimitReached when there are `MAX_ROWS`."""
        self.add(self.next_number, row)

    def add(self, number: int, row: Row) -> None:
        """Appends a row with a number above all others."""
        if len(self.rows) >= MAX_ROWS:
            raise LimitReached(f"a local table has more than {MAX_ROWS:,} rows in one group")
        self.before.setdefault(number, None)
        self._put(number, row)
        self.next_number = number + 1

    def update(self, number: int, row: Row) -> None:
        """Replaces a row."""
        old = self.rows[number]
        if number not in self.before:
            self.before[number] = tuple(old)
        for columns, _ in self._indexes:
            if any(old[column] != row[column] for column in columns):
                self._unindex(number, old)
                self._put(number, row)
                return
        old[:] = row  # the same list stays in the indexes

    def delete(self, number: int) -> None:
        """Deletes a row, if it exists."""
        old = self.rows.pop(number, None)
        if old is not None:
            self.before.setdefault(number, tuple(old))
            self._unindex(number, old)

    def clear(self) -> None:
        """Deletes all rows."""
        for number in list(self.rows):
            self.delete(number)

    def items(self) -> list[tuple[int, Row]]:
        """The rows with their numbers, in the order of insertion."""
        return list(self.rows.items())

    def oldest(self) -> list[tuple[int, Row]]:
        """The first row, if there is one."""
        return [next(iter(self.rows.items()))] if self.rows else []

    def _put(self, number: int, row: Row) -> None:
        self.rows[number] = row
        for columns, index in self._indexes:
            key = tuple([row[column] for column in columns])
            found = index.get(key)
            if found is None:
                index[key] = [(number, row)]
            elif isinstance(found, list):  # a new object: a loop may be reading the old one
                index[key] = NumberedRows([*found, (number, row)])
            else:
                found[number] = row

    def _unindex(self, number: int, row: Row) -> None:
        for columns, index in self._indexes:
            key = tuple([row[column] for column in columns])
            found = index[key]
            if isinstance(found, list):
                del index[key]
                continue
            del found[number]
            if len(found) == 1:
                index[key] = list(found.items())

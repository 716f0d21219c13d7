"""The rows of a fold as an Arrow table, which is decoded once and then only where rows have changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from connectors.formats.json_rows import JsonRows
from connectors.kafka.logs.followed_fold import FollowedFold
from dsms.coordinator.results.decoded_rows import DecodedRows, RowDecoder
from dsms.model.objects import Format
from dsms.tables.sorted_index import Seek, SortedIndex

#: An index is used if it finds at most one of this many rows, since copying single rows takes longer than copying all.
_INDEXED_SHARE = 4


class DecodedTable:
    """The rows of a fold. A table consists of slices of the last one that was decoded as a whole, without the rows that
    have changed, and of the changed rows. One thread at a time may use it."""

    def __init__(self, fold: FollowedFold, schema: pa.Schema, form: Format) -> None:
        self._fold, self._decoder = fold, RowDecoder(schema, form)
        self._plain = JsonRows.of(schema) if form == "json" else None
        self._base: pa.Table | None = None
        self._places: dict[bytes, int] = {}
        #: The orders of the rows of the table that was decoded as a whole, by the columns of an index.
        self._indexes: dict[tuple[str, ...], SortedIndex] = {}

    @property
    def memory(self) -> int:
        """The bytes of the table that was decoded as a whole, and of its indexes."""
        indexes = sum(index.memory for index in self._indexes.values())
        return indexes + (0 if self._base is None else int(self._base.nbytes))

    def keep_indexes(self, columns: Collection[tuple[str, ...]]) -> None:
        """Frees all indexes but those with these columns."""
        self._indexes = {each: index for each, index in self._indexes.items() if each in columns}

    def at(self, instant: int, keys: Collection[bytes] | None = None, seek: Seek | None = None) -> DecodedRows:
        """The rows, or those of some encoded keys, at an instant that the fold knows. Rows without the sought values
        may be left out if there is an index."""
        if not self._fold.keyed:
            return self._bag(instant, seek)
        if keys is not None:
            return self._decoded(list(self._fold.rows_of(set(keys), instant).values()))
        if self._base is None or self._fold.dirty is None:
            whole = self._decoded(list(self._fold.rows.values()))
            if whole.bad:
                return whole
            self._places = {key: at for at, key in enumerate(self._fold.rows)}
            self._take_base(whole.table)
        base, dirty = self._base, self._fold.dirty
        assert base is not None
        assert dirty is not None
        return self._with_changes(base, dirty | self._fold.changed_after(instant), instant, seek)

    def _take_base(self, rows: pa.Table) -> None:
        self._base, self._fold.dirty, self._indexes = rows, set(), {}

    def plain_at(self, instant: int, keys: Collection[bytes]) -> list[tuple[Any, ...]] | None:
        """The values of the rows of some encoded keys; None if `at` has to decode them."""
        if self._plain is None or not self._fold.keyed:
            return None
        return self._plain.decoded(list(self._fold.rows_of(set(keys), instant).values()))

    def _with_changes(self, base: pa.Table, changed: set[bytes], instant: int, seek: Seek | None) -> DecodedRows:
        """The decoded table with the rows of changed keys replaced by those at an instant."""
        found = None if seek is None else self._found(base, seek)
        if not changed:
            return DecodedRows(base if found is None else _of(base, found), frozenset())
        gone = {self._places[key] for key in changed if key in self._places}
        now = self._decoded(list(self._fold.rows_of(changed, instant).values()))
        left = _without(base, sorted(gone)) if found is None else [_of(base, [at for at in found if at not in gone])]
        return DecodedRows(pa.concat_tables([*left, now.table]), now.bad)

    def _found(self, base: pa.Table, seek: Seek) -> list[int] | None:
        """The numbers of rows that an index finds; None if there is none for the sought values, or if they are many."""
        self.keep_indexes(set(seek.indexes.values()))
        name = seek.usable(base.schema)
        if name is None:
            return None
        columns = seek.indexes[name]
        if (index := self._indexes.get(columns)) is None:
            index = self._indexes[columns] = SortedIndex(base, columns)
        count = index.count(seek.sought)
        return None if count is None or count > base.num_rows // _INDEXED_SHARE else index.places(seek.sought)

    def _bag(self, instant: int, seek: Seek | None) -> DecodedRows:
        undone = self._fold.changed_after(instant)
        if self._base is None or self._fold.dirty != set() or undone:
            found = self._decoded(list(self._fold.bag_at(instant).elements()))
            if undone or found.bad:
                return found
            self._take_base(found.table)
        base = self._base
        assert base is not None
        places = None if seek is None else self._found(base, seek)
        return DecodedRows(base if places is None else _of(base, places), frozenset())

    def _decoded(self, values: list[bytes]) -> DecodedRows:
        return self._decoder.decoded(values)


def _of(table: pa.Table, places: Sequence[int]) -> pa.Table:
    """The rows of these numbers."""
    return table.take(pa.array(places, pa.int64()))


def _without(table: pa.Table, gone: Sequence[int]) -> Iterator[pa.Table]:
    """Slices of the table without the rows of these numbers, which are in order."""
    start = 0
    for at in [*gone, table.num_rows]:
        if at > start:
            yield table.slice(start, at - start)
        start = at + 1

"""The rows of a fold as an Arrow table, which is decoded once and then only where rows have changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from connectors.kafka.logs.followed_fold import FollowedFold
from dsms.coordinator.results.decoded_rows import DecodedRows, RowDecoder
from dsms.model.objects import Format


class DecodedTable:
    """The rows of a fold. A table consists of slices of the last one that was decoded as a whole, without the rows that
    have changed, and of the changed rows. One thread at a time may use it."""

    def __init__(self, fold: FollowedFold, schema: pa.Schema, form: Format) -> None:
        self._fold, self._decoder = fold, RowDecoder(schema, form)
        self._base: pa.Table | None = None
        self._places: dict[bytes, int] = {}

    @property
    def memory(self) -> int:
        """The bytes of the table that was decoded as a whole."""
        return 0 if self._base is None else int(self._base.nbytes)

    def at(self, instant: int, keys: Collection[bytes] | None = None) -> DecodedRows:
        """The rows, or those of some encoded keys, at an instant that the fold knows."""
        if not self._fold.keyed:
            return self._bag(instant)
        if keys is not None:
            return self._decoded(list(self._fold.rows_of(set(keys), instant).values()))
        if self._base is None or self._fold.dirty is None:
            whole = self._decoded(list(self._fold.rows.values()))
            if whole.bad:
                return whole
            self._base, self._places = whole.table, {key: at for at, key in enumerate(self._fold.rows)}
            self._fold.dirty = set()
        return self._with_changes(self._base, self._fold.dirty | self._fold.changed_after(instant), instant)

    def _with_changes(self, base: pa.Table, changed: set[bytes], instant: int) -> DecodedRows:
        """The decoded table with the rows of changed keys replaced by those at an instant."""
        if not changed:
            return DecodedRows(base, frozenset())
        gone = sorted(self._places[key] for key in changed if key in self._places)
        now = self._decoded(list(self._fold.rows_of(changed, instant).values()))
        return DecodedRows(pa.concat_tables([*_without(base, gone), now.table]), now.bad)

    def _bag(self, instant: int) -> DecodedRows:
        undone = self._fold.changed_after(instant)
        if self._base is not None and self._fold.dirty == set() and not undone:
            return DecodedRows(self._base, frozenset())
        found = self._decoded(list(self._fold.bag_at(instant).elements()))
        if not undone and not found.bad:
            self._base = found.table
            self._fold.dirty = set()
        return found

    def _decoded(self, values: list[bytes]) -> DecodedRows:
        return self._decoder.decoded(values)


def _without(table: pa.Table, gone: Sequence[int]) -> Iterator[pa.Table]:
    """Slices of the table without the rows of these numbers, which are in order."""
    start = 0
    for at in [*gone, table.num_rows]:
        if at > start:
            yield table.slice(start, at - start)
        start = at + 1

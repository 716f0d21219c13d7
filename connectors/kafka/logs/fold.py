"""Folds the changes of a result topic into the relation that they produce, as encoded rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from connectors.kafka.client.topics import Partition
from connectors.kafka.logs.changes import ChangeReader, Changes, Refused
from connectors.kafka.records.log_pieces import LogPiece
from operators.core.delta import BEGINNING, FOREVER

#: The memory of a row in addition to the bytes of its key and value.
ROW_BYTES = 100
#: What undoes a change: the key and the row before, or the row and the number of copies to add.
Undo = tuple[bytes, bytes | int | None]


class Fold:
    """The relation after all changes with an instant of at most `at`. The result does not depend on how `take` calls
    split the changes.

    A keyed change replaces or removes (`-`) the row of its key; a keyless one adds or removes one copy of a row. Only
    the remaining rows are kept, so memory grows with the relation and not with its history. `ChangeReader` says which
    records are left out.
    """

    def __init__(
        self,
        *,
        keyed: bool,
        at: int = FOREVER,
        bad: frozenset[bytes] = frozenset(),
        refused: Refused = lambda *_: None,
        marked_by: str | None = None,
    ) -> None:
        self.at, self.keyed = at, keyed
        self._changes = ChangeReader(refused, bad, marked_by)
        #: The greatest instant of the applied changes, and the number of later changes, which were skipped.
        self.last, self.later = BEGINNING, 0
        self.rows: dict[bytes, bytes] = {}
        self.bag: Counter[bytes] = Counter()
        #: The approximate memory of the remaining rows.
        self.bytes = 0

    @property
    def bad(self) -> frozenset[bytes]:
        """The values that are not rows."""
        return self._changes.bad

    @property
    def frontier(self) -> int:
        """The greatest heartbeat of the log: no change with an instant below it follows."""
        return self._changes.frontier

    def take(self, piece: LogPiece, source: Partition) -> None:
        """Applies the next changes of a partition of the log."""
        changes = self._changes.read(piece, source)
        due = changes.instants <= self.at
        self._skip(changes.where(~due))
        self._apply(changes.where(due))

    def _skip(self, changes: Changes) -> None:
        self.later += len(changes)

    def _apply(self, changes: Changes) -> list[Undo]:
        """Applies changes; returns what undoes each."""
        if len(changes):
            self.last = max(self.last, int(changes.instants.max()))
        return self._put(changes) if self.keyed else self._add(changes)

    def _put(self, changes: Changes) -> list[Undo]:
        """Replaces or removes the row of each key."""
        rows, size, undo = self.rows, 0, list[Undo]()
        for key, row, gone in zip(changes.keys, changes.rows, changes.gone.tolist(), strict=True):
            key = key or b""
            if (before := rows.get(key)) is not None:
                size -= len(key) + len(before) + ROW_BYTES
            if gone or row is None:
                rows.pop(key, None)
            else:
                rows[key] = row
                size += len(key) + len(row) + ROW_BYTES
            undo.append((key, before))
        self.bytes += size
        return undo

    def _add(self, changes: Changes) -> list[Undo]:
        """Adds or removes a copy of each row."""
        undo = list[Undo]()
        for row, gone in zip(changes.rows, changes.gone.tolist(), strict=True):
            row, count = row or b"", -1 if gone else 1
            self.bag[row] += count
            self.bytes += count * (len(row) + ROW_BYTES)
            if not self.bag[row]:
                del self.bag[row]
            undo.append((row, -count))
        return undo

    def values(self) -> Iterator[bytes]:
        """The rows of the relation."""
        return iter(self.rows.values()) if self.keyed else self.bag.elements()

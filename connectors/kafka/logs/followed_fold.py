"""A fold of a result topic that continues: it moves to later instants, and gives back instants that are just past.

It reads nothing itself: the caller passes the records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable

from connectors.kafka.client.topics import Partition
from connectors.kafka.logs.changes import Changes, Refused, joined
from connectors.kafka.logs.fold import ROW_BYTES, Fold, Undo
from connectors.kafka.records.log_pieces import LogPiece
from operators.core.delta import BEGINNING

#: The most changes that can be undone, and that a SELECT at an instant just past undoes in a copy.
MAX_UNDONE = 50_000
#: The changed rows that are noted, as a share of all, and at least.
_MAX_CHANGED_SHARE, _MIN_CHANGED = 8, 1_000


class FollowedFold(Fold):
    """The relation at instant `at`: first of the changes that `take` got, then of those that `add` got, up to the
    instant to which `advance` moved. Later changes wait, and those that `advance` applied can be undone.

    The law: for `floor ≤ instant ≤ at`, the relation is that of a fold of all changes up to the instant. A compacted
    topic may lack changes that a later one replaced before it was read, so its floor is at least the last instant that
    was in the topic when it was first read (`set_floor`).
    """

    def __init__(
        self,
        *,
        keyed: bool,
        at: int,
        bad: frozenset[bytes] = frozenset(),
        refused: Refused = lambda *_: None,
        marked_by: str | None = None,
    ) -> None:
        super().__init__(keyed=keyed, at=at, bad=bad, refused=refused, marked_by=marked_by)
        #: The least instant of which the relation is known, and the greatest instant of all changes.
        self.floor, self.greatest = BEGINNING, BEGINNING
        #: The keys whose rows have changed since the caller set it to an empty set; None: it has not, or these are more
        #: than an eighth of all rows. Without a key, rows are their keys.
        self.dirty: set[bytes] | None = None
        self._waiting: list[Changes] = []
        self._waiting_bytes = 0
        self._undoable = False
        #: What undoes the last changes, by the order of their instants.
        self._undo_instants: list[int] = []
        self._undo: list[Undo] = []

    @property
    def memory(self) -> int:
        """The approximate memory, with the changes that wait and those that can be undone."""
        return self.bytes + self._waiting_bytes + 2 * ROW_BYTES * len(self._undo)

    def add(self, piece: LogPiece, source: Partition) -> None:
        """Adds the next changes of a partition of the log. They wait until `advance` reaches their instants."""
        self._skip(self._changes.read(piece, source))

    def advance(self, instant: int) -> None:
        """Moves to an instant, and applies the changes up to it in the order of their instants."""
        self.at = max(self.at, instant)
        self._undoable = True
        if not self._waiting:
            return
        waiting = joined(self._waiting)
        self._waiting, self.later, self._waiting_bytes = [], 0, 0
        due = waiting.instants <= self.at
        self._skip(waiting.where(~due))
        self._apply(waiting.where(due).in_order())

    def set_floor(self, instant: int) -> None:
        """Relations before the instant are not known any more."""
        self.floor = max(self.floor, instant)

    def knows(self, instant: int) -> bool:
        """Whether the relation at the instant is known."""
        return self.floor <= instant <= self.at

    def changed_after(self, instant: int) -> set[bytes]:
        """The keys whose rows have changed after a known instant."""
        return {key for key, _ in self._undone(instant)}

    def rows_of(self, keys: Collection[bytes], instant: int) -> dict[bytes, bytes]:
        """The rows of those of the keys that have one at a known instant."""
        rows = {key: row for key in keys if (row := self.rows.get(key)) is not None}
        for key, before in self._undone(instant):
            if key in keys:
                rows.pop(key, None)
                if isinstance(before, bytes):
                    rows[key] = before
        return rows

    def bag_at(self, instant: int) -> Counter[bytes]:
        """The rows without keys at a known instant, with the numbers of their copies."""
        bag = Counter(self.bag)
        for row, count in self._undone(instant):
            assert isinstance(count, int)
            bag[row] += count
        return bag

    def _undone(self, instant: int) -> Iterable[Undo]:
        """What undoes the changes after the instant, the last first."""
        return reversed(self._undo[bisect_right(self._undo_instants, instant) :])

    def _skip(self, changes: Changes) -> None:
        super()._skip(changes)
        if len(changes):
            self._waiting.append(changes)
            self._waiting_bytes += changes.bytes + ROW_BYTES * len(changes)
            self.greatest = max(self.greatest, int(changes.instants.max()))

    def _apply(self, changes: Changes) -> list[Undo]:
        undo = super()._apply(changes)
        self.greatest = max(self.greatest, self.last)
        if self.dirty is not None:
            self._note(self.dirty, {changed for changed, _ in undo})
        if self._undoable and undo:
            self._keep(changes.instants.tolist(), undo)
        return undo

    def _note(self, dirty: set[bytes], changed: set[bytes]) -> None:
        dirty |= changed
        rows = self.rows if self.keyed else self.bag
        if len(dirty) > max(_MIN_CHANGED, len(rows) // _MAX_CHANGED_SHARE):
            self.dirty = None

    def _keep(self, instants: list[int], undo: list[Undo]) -> None:
        """Keeps what undoes changes in the order of their instants."""
        last = self._undo_instants[-1] if self._undo else self.floor
        if instants[0] < last:  # they came after their instant was final: only the relation after all is certain
            self._forget(last)
            late = bisect_right(instants, last)
            instants, undo = instants[late:], undo[late:]
        self._undo_instants += instants
        self._undo += undo
        if len(self._undo) > MAX_UNDONE:
            self._forget(self._undo_instants[-MAX_UNDONE - 1])

    def _forget(self, upto: int) -> None:
        """Forgets how to undo the changes up to an instant."""
        count = bisect_right(self._undo_instants, upto)
        del self._undo_instants[:count], self._undo[:count]
        self.floor = max(self.floor, upto)

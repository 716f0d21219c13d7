"""A fold of a result topic that continues: it moves to later instants, and gives back instants that are just past.

It reads nothing itself: the caller passes the records.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from operator import itemgetter

from confluent_kafka import Message

from connectors.kafka.logs.fold import ROW_BYTES, Change, Fold, Refused
from operators.core.delta import BEGINNING

#: The most changes that can be undone, and that a SELECT at an instant just past undoes in a copy.
_MAX_UNDONE = 50_000
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
        self._waiting: list[Change] = []
        self._waiting_bytes = 0
        self._undoable = False
        self._undo: deque[tuple[int, bytes, bytes | int | None]] = deque()

    @property
    def memory(self) -> int:
        """The approximate memory, with the changes that wait and those that can be undone."""
        return self.bytes + self._waiting_bytes + 2 * ROW_BYTES * len(self._undo)

    @property
    def keyed(self) -> bool:
        """Whether each row has a key."""
        return self._keyed

    def add(self, messages: Iterable[Message]) -> None:
        """Adds the next changes of the log. They wait until `advance` reaches their instants."""
        for change in self._changes(messages):
            self._skip(change)

    def advance(self, instant: int) -> None:
        """Moves to an instant, and applies the changes up to it in the order of their instants."""
        self.at = max(self.at, instant)
        self._undoable = True
        if not self._waiting:
            return
        waiting, self._waiting, self.later, self._waiting_bytes = self._waiting, [], 0, 0
        for change in sorted(waiting, key=itemgetter(0)):
            if change.instant <= self.at:
                self._apply(change)
            else:
                self._skip(change)

    def set_floor(self, instant: int) -> None:
        """Relations before the instant are not known any more."""
        self.floor = max(self.floor, instant)

    def knows(self, instant: int) -> bool:
        """Whether the relation at the instant is known."""
        return self.floor <= instant <= self.at

    def changed_after(self, instant: int) -> set[bytes]:
        """The keys whose rows have changed after a known instant."""
        return {key for _, key, _ in self._undone(instant)}

    def rows_of(self, keys: Collection[bytes], instant: int) -> dict[bytes, bytes]:
        """The rows of those of the keys that have one at a known instant."""
        rows = {key: row for key in keys if (row := self.rows.get(key)) is not None}
        for _, key, before in self._undone(instant):
            if key in keys:
                rows.pop(key, None)
                if isinstance(before, bytes):
                    rows[key] = before
        return rows

    def bag_at(self, instant: int) -> Counter[bytes]:
        """The rows without keys at a known instant, with the numbers of their copies."""
        bag = Counter(self.bag)
        for _, row, count in self._undone(instant):
            assert isinstance(count, int)
            bag[row] += count
        return bag

    def _undone(self, instant: int) -> Iterable[tuple[int, bytes, bytes | int | None]]:
        """The changes after the instant, the last first."""
        for change in reversed(self._undo):
            if change[0] <= instant:
                return
            yield change

    def _skip(self, change: Change) -> None:
        super()._skip(change)
        self.greatest = max(self.greatest, change.instant)
        self._waiting.append(change)
        self._waiting_bytes += len(change.message) + ROW_BYTES

    def _change(self, instant: int, key: bytes | None, value: bytes | None, gone: bool) -> None:
        changed = (key if self._keyed else value) or b""
        before = self.rows.get(changed) if self._keyed else (1 if gone else -1)
        super()._change(instant, key, value, gone)
        self._note(changed)
        self.greatest = max(self.greatest, instant)
        if not self._undoable:
            return
        last = self._undo[-1][0] if self._undo else self.floor
        self._undo.append((instant, changed, before))
        if instant < last:  # it came after its instant was final: only the relation after all changes is certain
            self._forget(last)
        elif len(self._undo) > _MAX_UNDONE:
            self._forget(self._undo[0][0])

    def _note(self, changed: bytes) -> None:
        if self.dirty is None:
            return
        self.dirty.add(changed)
        rows = self.rows if self._keyed else self.bag
        if len(self.dirty) > max(_MIN_CHANGED, len(rows) // _MAX_CHANGED_SHARE):
            self.dirty = None

    def _forget(self, upto: int) -> None:
        """Forgets how to undo the changes up to an instant."""
        while self._undo and self._undo[0][0] <= upto:
            self._undo.popleft()
        self.floor = max(self.floor, upto)

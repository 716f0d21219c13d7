"""Folds the changes of a result topic into the relation that they produce, as encoded rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from confluent_kafka import Message

from connectors.kafka.client.names import BY_HEADER, HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from connectors.kafka.logs.internal_log import why_foreign_result
from connectors.kafka.logs.result_ends import header_instant
from operators.core.delta import BEGINNING, FOREVER

#: Called for each record that is left out, with the reason.
Refused = Callable[[Message, str], None]
#: The memory of a row in addition to the bytes of its key and value.
ROW_BYTES = 100


class Change(NamedTuple):
    """A record that is a change: its instant, whether the row goes, and the record itself."""

    instant: int
    gone: bool
    message: Message


class Fold:
    """The relation after all changes with an instant of at most `at`. The result does not depend on how `take` calls
    split the changes.

    A keyed change replaces or removes (`-`) the row of its key; a keyless one adds or removes one copy of a row. Only
    the remaining rows are kept, so memory grows with the relation and not with its history. A record is left out, and
    `refused` is called for it, if it is not a change, has one of the `bad` values, or does not name the cluster
    `marked_by` as its writer.
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
        self.at = at
        self._marked_by, self._mark = marked_by, None if marked_by is None else f"{marked_by}/".encode()
        self.bad, self._refused = bad, refused
        #: The greatest instant of the applied changes, and the number of later changes, which were skipped.
        self.last, self.later = BEGINNING, 0
        #: The greatest heartbeat of the log: no change with an instant below it follows.
        self.frontier = BEGINNING
        self.rows: dict[bytes, bytes] = {}
        self.bag: Counter[bytes] = Counter()
        #: The approximate memory of the remaining rows.
        self.bytes = 0
        self._keyed = keyed

    def take(self, messages: Iterable[Message]) -> None:
        """Applies the next changes of the log."""
        for change in self._changes(messages):
            if change.instant > self.at:
                self._skip(change)
            else:
                self._apply(change)

    def _changes(self, messages: Iterable[Message]) -> Iterator[Change]:
        """The changes among the records. Notes heartbeats, and refuses all else."""
        for message in messages:
            headers = dict(message.headers() or ())
            if self._mark is not None and not (headers.get(BY_HEADER) or b"").startswith(self._mark):
                self._refused(message, why_foreign_result(message, self._marked_by) or "")
                continue
            if message.value() is None and HEARTBEAT_HEADER in headers:
                self._advance(message, header_instant(headers, HEARTBEAT_HEADER))
                continue
            ts = header_instant(headers, TS_HEADER)
            if ts is None:
                self._refused(message, "not a change: it has no instant")
            else:
                yield Change(ts, headers.get(OP_HEADER) == b"-", message)

    def _apply(self, change: Change) -> None:
        ts, gone, message = change
        value = message.value()
        if self.bad and value in self.bad:
            self._refused(message, "not a row of the declared columns")
        else:
            self.last = max(self.last, ts)
            self._change(ts, message.key(), value, gone)

    def _skip(self, change: Change) -> None:
        self.later += 1

    def _advance(self, message: Message, instant: int | None) -> None:
        if instant is None:
            self._refused(message, "a heartbeat without an instant")
        else:
            self.frontier = max(self.frontier, instant)

    def _change(self, instant: int, key: bytes | None, value: bytes | None, gone: bool) -> None:
        if self._keyed:
            self._put(key or b"", None if gone else value)
        else:
            self._add(value or b"", -1 if gone else 1)

    def _put(self, key: bytes, value: bytes | None) -> None:
        """Replaces the row of a key; None removes it."""
        if (before := self.rows.get(key)) is not None:
            self.bytes -= _size(key, before)
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value
            self.bytes += _size(key, value)

    def _add(self, value: bytes, count: int) -> None:
        """Adds copies of a row."""
        self.bag[value] += count
        self.bytes += count * _size(b"", value)
        if not self.bag[value]:
            del self.bag[value]

    def values(self) -> Iterator[bytes]:
        """The rows of the relation."""
        return iter(self.rows.values()) if self._keyed else self.bag.elements()


def _size(key: bytes, value: bytes) -> int:
    return len(key) + len(value) + ROW_BYTES

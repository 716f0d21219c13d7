"""A relation that is kept ready: the fold of a result topic, which reads on, and its rows as an Arrow table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from connectors.kafka.logs.fold import Refused
from connectors.kafka.logs.followed_fold import FollowedFold
from connectors.kafka.records.partition_readers import OffsetRange
from dsms.coordinator.results.decoded_rows import DecodedRows, decoded_rows
from dsms.model.objects import Query
from dsms.tables.select_budget import Budget
from operators.core.delta import BEGINNING

#: A Kafka message; this module uses its offset.
Message = Any
#: The rows that may change before the whole table is decoded again, as a share of it, and at least.
_MAX_CHANGED_SHARE, _MIN_CHANGED = 8, 1_000
#: For how many seconds records are not compacted after they were written: less than `COMPACTED_RESULT` says. Topics of
#: older versions have Kafka's default of 0, but their segments stay open for days, and are not compacted before.
_UNCOMPACTED_S = 30.0


class TopicLog(Protocol):
    """Reads result topics. Its calls may block."""

    def identity(self, topic: str) -> str | None:
        """The id of the topic; a re-created topic has a different one. None: not known."""
        ...

    def unread(self, topic: str, next_offsets: Mapping[int, int]) -> list[OffsetRange]:
        """The committed records from these offsets on, after the open transactions are decided."""
        ...

    def read(self, wanted: OffsetRange, *, whole: bool) -> Iterator[Sequence[Message]]:
        """The records of a range, piece by piece; `whole`: it is the whole partition, not only its last records."""
        ...


class KeptResult:
    """The relation of a query at the instants from the first that is known on. Several threads may use it.

    The law: a table is what a fold of all changes up to its instant returns. A record that was read when it may have
    been compacted already is followed by all that has replaced it, so the relation is known from the last instant on
    that was read with it.
    """

    def __init__(
        self,
        query: Query,
        columns: tuple[pa.Schema, Sequence[str]],
        log: TopicLog,
        refused: Refused,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.query, (self.schema, self.keys) = query, columns
        self._log, self._clock, self._lock = log, clock, threading.Lock()
        self._compacted = bool(self.keys) and query.output != "complete"
        self._fold_of = partial(FollowedFold, keyed=bool(self.keys), refused=refused, marked_by=query.marked_by)
        self._restart(frozenset())

    def _restart(self, bad: frozenset[bytes]) -> None:
        self._fold = self._fold_of(at=BEGINNING, bad=bad)
        self._identity: str | None = None
        self._next: dict[int, int] = {}
        self._loaded, self._below = False, BEGINNING
        #: Until when the records from `_next` on are certainly not compacted.
        self._complete_until = self._clock()
        self._base: pa.Table | None = None
        self._places: dict[bytes, int] = {}

    @property
    def memory(self) -> int:
        """The approximate memory."""
        return self._fold.memory + (self._base.nbytes if self._base is not None else 0)

    @property
    def floor(self) -> int:
        """The first instant that is known."""
        return self._fold.floor

    def follow(self, frontier: int, budget: Budget) -> None:
        """Reads on until all changes below the frontier are read; it has to be published already."""
        with self._locked(budget):
            self._follow(frontier, budget)

    def rows_at(
        self, instant: int, frontier: int, budget: Budget, keys: Collection[bytes] | None = None
    ) -> pa.Table | None:
        """The rows at an instant below a published frontier, or those of some encoded keys; None if the instant is
        before those that are known."""
        with self._locked(budget):
            while True:
                self._follow(frontier, budget)
                self._fold.advance(instant)
                if not self._fold.knows(instant):
                    return None
                found = self._table(instant, keys)
                if not found.bad:
                    return found.table
                self._restart(self._fold.bad | found.bad)  # they may have replaced valid rows

    @contextmanager
    def _locked(self, budget: Budget) -> Iterator[None]:
        while not self._lock.acquire(timeout=0.05):
            budget.check()
        try:
            yield
        finally:
            self._lock.release()

    def _follow(self, frontier: int, budget: Budget) -> None:
        if self._loaded and frontier <= self._below:
            return
        identity = self._log.identity(self.query.topic)
        if identity != self._identity:
            self._restart(self._fold.bad)
            self._identity = identity
        if self._fold.at == BEGINNING:
            self._fold.at = frontier - 1
        asked, unread = self._clock(), self._log.unread(self.query.topic, self._next)
        for wanted in unread:
            self._read(wanted, budget)
        if not self._loaded:
            self._fold.set_floor(self._fold.at)
        if self._compacted and unread and self._clock() >= self._complete_until:
            self._fold.set_floor(self._fold.greatest)
        self._loaded, self._below, self._complete_until = True, frontier, asked + _UNCOMPACTED_S

    def _read(self, wanted: OffsetRange, budget: Budget) -> None:
        """Reads a range. If the budget ends before, the next statement continues where this one stopped."""
        for piece in self._log.read(wanted, whole=not self._loaded):
            if self._loaded:
                self._fold.add(piece)
            else:
                self._fold.take(piece)
            if piece:
                self._next[wanted.partition] = piece[-1].offset() + 1
            budget.check_relation(self.query.name, self._fold.memory)
        self._next[wanted.partition] = wanted.end

    def _table(self, instant: int, keys: Collection[bytes] | None) -> DecodedRows:
        if not self.keys:
            return self._whole_bag(instant)
        if keys is not None:
            return self._decoded(list(self._fold.rows_of(set(keys), instant).values()))
        changed = self._fold.dirty | self._fold.changed_after(instant)
        if self._base is None or len(changed) > max(_MIN_CHANGED, self._base.num_rows // _MAX_CHANGED_SHARE):
            whole = self._decoded(list(self._fold.rows.values()))
            if whole.bad:
                return whole
            self._base, self._places = whole.table, {key: at for at, key in enumerate(self._fold.rows)}
            self._fold.dirty.clear()
            changed = self._fold.changed_after(instant)
        return self._with_changes(self._base, changed, instant)

    def _with_changes(self, base: pa.Table, changed: set[bytes], instant: int) -> DecodedRows:
        """The decoded table with the rows of changed keys replaced by those at an instant."""
        if not changed:
            return DecodedRows(base, frozenset())
        gone = sorted(self._places[key] for key in changed if key in self._places)
        now = self._decoded(list(self._fold.rows_of(changed, instant).values()))
        return DecodedRows(pa.concat_tables([*_without(base, gone), now.table]), now.bad)

    def _whole_bag(self, instant: int) -> DecodedRows:
        changed = self._fold.dirty or self._fold.changed_after(instant)
        if self._base is not None and not changed:
            return DecodedRows(self._base, frozenset())
        found = self._decoded(list(self._fold.bag_at(instant).elements()))
        if not self._fold.changed_after(instant) and not found.bad:
            self._base = found.table
            self._fold.dirty.clear()
        return found

    def _decoded(self, values: list[bytes]) -> DecodedRows:
        return decoded_rows(values, self.schema, self.query.format)


def _without(table: pa.Table, gone: Sequence[int]) -> Iterator[pa.Table]:
    """Slices of the table without the rows of these numbers, which are in order."""
    start = 0
    for at in [*gone, table.num_rows]:
        if at > start:
            yield table.slice(start, at - start)
        start = at + 1

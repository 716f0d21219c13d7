"""A relation that is kept ready: the fold of a result topic, which reads on, and its decoded rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from connectors.kafka.logs.changes import Refused
from connectors.kafka.logs.followed_fold import FollowedFold
from connectors.kafka.records.log_pieces import LogPiece
from connectors.kafka.records.partition_readers import OffsetRange
from dsms.coordinator.results.decoded_table import DecodedTable
from dsms.model.objects import Query
from dsms.tables.select_budget import Budget
from dsms.tables.sorted_index import Seek
from operators.core.delta import BEGINNING
from operators.core.errors import ExternalError

#: Rows as a table, or as the values of all columns of the schema.
Found = pa.Table | list[tuple[Any, ...]]
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

    def read(self, wanted: OffsetRange, *, whole: bool) -> Iterator[LogPiece]:
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
        self._decoded = DecodedTable(self._fold, self.schema, self.query.format)

    @property
    def memory(self) -> int:
        """The approximate memory."""
        return self._fold.memory + self._decoded.memory

    @property
    def is_read(self) -> bool:
        """Whether its topic was read once as a whole."""
        return self._loaded

    @property
    def floor(self) -> int:
        """The first instant that is known."""
        return self._fold.floor

    def keep_indexes(self, columns: Collection[tuple[str, ...]]) -> None:
        """Frees all indexes but those with these columns; does nothing while another thread reads."""
        if self._lock.acquire(blocking=False):
            try:
                self._decoded.keep_indexes(columns)
            finally:
                self._lock.release()

    def follow(self, frontier: int, budget: Budget) -> None:
        """Reads on until all changes below the frontier are read; it has to be published already."""
        with self._locked(budget):
            self._follow(frontier, budget)

    def rows_at(
        self,
        instant: int,
        frontier: int,
        budget: Budget,
        keys: Collection[bytes] | None = None,
        seek: Seek | None = None,
    ) -> pa.Table | None:
        """The rows at an instant below a published frontier, or those of some encoded keys; None if the instant is
        before those that are known. Rows without the sought values may be left out."""
        with self._locked(budget):
            while True:
                self._follow(frontier, budget)
                self._fold.advance(instant)
                if not self._fold.knows(instant):
                    return None
                found = self._decoded.at(instant, keys, seek)
                if not found.bad:
                    return found.table
                self._restart(self._fold.bad | found.bad)  # they may have replaced valid rows

    def found_at(
        self, instant: int, frontier: int, budget: Budget, wanted: Sequence[Collection[bytes]]
    ) -> list[Found] | None:
        """Like `rows_at`, the rows for each of several collections of keys, as of one instant."""
        with self._locked(budget):
            self._follow(frontier, budget)
            self._fold.advance(instant)
            if not self._fold.knows(instant):
                return None
            plain = [self._decoded.plain_at(instant, keys) for keys in wanted]
        if None not in plain:
            return [rows for rows in plain if rows is not None]
        tables = [self.rows_at(instant, frontier, budget, keys) for keys in wanted]
        known: list[Found] = [rows for rows in tables if rows is not None]
        return known if len(known) == len(wanted) else None

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
            if not self.query.shares:  # there are no later records yet
                self._complete_until = self._clock() + _UNCOMPACTED_S
            return
        identity = self._log.identity(self.query.topic)
        if identity != self._identity:
            self._restart(self._fold.bad)
            self._identity = identity
        if self._fold.at == BEGINNING:
            self._fold.at = frontier - 1
        asked, unread = self._clock(), self._log.unread(self.query.topic, self._next)
        try:
            for wanted in unread:
                self._read(wanted, budget)
        except ExternalError as error:
            if error.retryable or not self._loaded:
                raise
            self._restart(self._fold.bad)  # the records that come next are gone: what is left begins later
            self._follow(frontier, budget)
            return
        if not self._loaded:
            self._fold.set_floor(self._fold.at)
        if self._compacted and unread and self._clock() >= self._complete_until:
            self._fold.set_floor(self._fold.greatest)
        self._loaded, self._below, self._complete_until = True, frontier, asked + _UNCOMPACTED_S

    def _read(self, wanted: OffsetRange, budget: Budget) -> None:
        """Reads a range. If the budget ends before, the next statement continues where this one stopped."""
        for piece in self._log.read(wanted, whole=not self._loaded):
            if self._loaded:
                self._fold.add(piece, wanted.key)
            else:
                self._fold.take(piece, wanted.key)
            if len(piece):
                self._next[wanted.partition] = int(piece.offsets[-1]) + 1
            budget.check_relation(self.query.name, self._fold.memory)
        self._next[wanted.partition] = wanted.end

"""The logs of a cluster's tables, which only the coordinator writes.

The law: one statement is one transaction and one instant. All tables have one clock, the time in milliseconds, which
advances between any two statements and never goes back, even when another coordinator takes over. Every transaction
ends with a heartbeat in the log of each table: a promise that nothing below the next instant follows. So the results of
a query that reads only tables are final at once. A query that reads a table and a stream needs a new heartbeat whenever
the stream advances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import polars as pl
import pyarrow as pa

from connectors.alarms import Alarms
from connectors.formats import JsonEncoder
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import HEARTBEAT_HEADER, OP_HEADER, TS_HEADER, transactional_id
from connectors.kafka.logs.changes import Place
from connectors.kafka.logs.fold import Fold
from connectors.kafka.logs.followed_fold import FollowedFold
from connectors.kafka.logs.internal_log import writer_headers
from connectors.kafka.records.column_writer import TransactionalWriter, transactional_writer
from connectors.kafka.records.log_pieces import MessagePiece
from connectors.kafka.records.pieces import decided_ranges, pieces
from connectors.kafka.records.record_columns import Headers, Records
from dsms.coordinator.results.decoded_rows import decoded_rows
from dsms.coordinator.results.decoded_table import DecodedTable
from dsms.coordinator.watcher.redis_documents import LeaderView
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
from dsms.tables.effect import Effect
from dsms.tables.equal_values import EqualValues
from dsms.tables.select_budget import Budget
from dsms.tables.sorted_index import Seek
from dsms.tables.wanted_keys import KeyWriter
from operators.core.delta import BEGINNING, FOREVER
from operators.core.errors import ExternalError, Fenced, UserError


def wall_clock_ms() -> int:
    """The time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


#: What the transactional id of the writer of all table logs ends with.
WRITER = "tables"


@dataclass
class _FoldedLog:
    """The content of a table up to the `next` offset of each partition of its log, with the columns of one version of
    the log, `source` by id."""

    source: str
    fold: FollowedFold
    decoded: DecodedTable
    next: dict[int, int] = field(default_factory=dict)


class ClusterTables:
    """The logs of all tables. Creating a `ClusterTables` fences that of an older coordinator. One thread at a time may
    use it."""

    def __init__(
        self, kafka: KafkaSettings, leader: LeaderView, alarms: Alarms, clock: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._kafka, self._clock, self._alarms, self._leads = kafka, clock, alarms, leader.leads
        self._admin = kafka.admin()
        self._writer_headers = writer_headers(leader.cluster, f"tables-{clock()}")
        self._start = partial(transactional_writer, kafka, transactional_id(leader.cluster, WRITER))
        self._writer: TransactionalWriter | None = self._start()
        self._folded: dict[str, _FoldedLog] = {}

    def write(self, table: Table, tables: Iterable[Table], effects: Iterable[Effect]) -> tuple[int, int]:
        """Writes effects as one statement on `table`. Returns the number of rows that they change, and the instant.

        Effects may be computed while they are written: if one fails, the statement has changed nothing.
        """
        all_tables = list(tables)
        instant, count = self._instant(all_tables), 0
        writer = self._begin()
        try:
            for effect in effects:
                count += effect.count
                for records in _records(table, effect, instant, self._writer_headers):
                    writer.write(records)
            self._write_heartbeats(writer, all_tables, instant + 1)
            self._commit(writer, all_tables, instant + 1)
        except BaseException as error:
            self._give_up(error)
            raise
        return count, instant

    def send_heartbeats(self, tables: Iterable[Table]) -> None:
        """Sends heartbeats with the current instant to the readers of the tables."""
        all_tables = list(tables)
        instant = self._instant(all_tables)
        writer = self._begin()
        try:
            self._write_heartbeats(writer, all_tables, instant)
            self._commit(writer, all_tables, instant)
        except BaseException as error:
            self._give_up(error)
            raise

    def content(self, table: Table) -> TableContent:
        """The current content of a table."""
        rows = self._valid_rows(table)
        return TableContent(table, self._folded[table.id].fold, rows)

    def rows_at(
        self, table: Table, at: int | None, budget: Budget, wanted: EqualValues, seek: Seek | None = None
    ) -> pa.Table:
        """The rows at an instant, or the current rows if it is None; rows with other than the wanted and sought values
        may be left out. The budget limits the work."""
        fold = self._read(table)
        budget.check_relation(table.name, fold.bytes)
        if at is not None and at < fold.last:
            self._valid_rows(table)  # finds the invalid values
            return self._rows_before(table, at, budget)
        return self._valid_rows(table, KeyWriter(table.key_schema).wanted(wanted) if wanted else None, seek)

    def _rows_before(self, table: Table, at: int, budget: Budget) -> pa.Table:
        """The rows at an earlier instant, from the start of the log."""
        bad, marked_by = self._folded[table.id].fold.bad, table.source.marked_by
        fold = Fold(keyed=True, at=at, bad=bad, refused=self._refused, marked_by=marked_by)
        for unread in decided_ranges(self._admin, table.topic, table.source.start):
            for piece in pieces(self._kafka, [unread]):
                fold.take(MessagePiece(piece), unread.key)
                budget.check()
        budget.check_relation(table.name, fold.bytes)
        return decoded_rows(list(fold.values()), table.schema).table

    def _valid_rows(self, table: Table, keys: Collection[bytes] | None = None, seek: Seek | None = None) -> pa.Table:
        """The current rows of a table, or those of some keys. Invalid values, which others have written, may have
        replaced valid rows: then the log is folded again without those values."""
        fold = self._read(table)
        rows = self._folded[table.id].decoded.at(FOREVER, keys, seek)
        if rows.bad:
            self._folded[table.id] = self._log_of(table, fold.bad | rows.bad)
            return self._valid_rows(table, keys, seek)
        return rows.table

    def _log_of(self, table: Table, bad: frozenset[bytes] = frozenset()) -> _FoldedLog:
        marked_by = table.source.marked_by
        fold = FollowedFold(keyed=True, at=FOREVER, bad=bad, refused=self._refused, marked_by=marked_by)
        decoded = DecodedTable(fold, table.schema, "json")
        return _FoldedLog(table.source.id, fold, decoded, dict(table.source.start))

    def _refused(self, place: Place, reason: str) -> None:
        self._alarms.raise_at(place.topic, reason, place.partition, place.offset)

    def keep_indexes(self, catalog: Catalog) -> None:
        """Frees the indexes that the catalog does not have any more."""
        for table in catalog.tables():
            if (log := self._folded.get(table.id)) is not None:
                log.decoded.keep_indexes(set(catalog.indexes_on(table.name).values()))

    def last_instant(self, tables: Iterable[Table]) -> int:
        """The last instant that is final in all of these tables. Raises UserError if the query that fills one of them
        has no final instant yet."""
        return min(self._frontier(table) for table in tables) - 1

    def _frontier(self, table: Table) -> int:
        frontier = self._read(table).frontier
        if frontier == BEGINNING and table.filled_by is not None:
            hint = f'query "{table.filled_by}" fills it; try again when that has results'
            raise UserError(f'table "{table.name}" has no final instant yet', hint=hint)
        return frontier

    def ends(self, table: Table) -> dict[int, int]:
        """The end of a table's log, by partition, after all that has been written."""
        self._read(table)
        return dict(self._folded[table.id].next)

    def without_heartbeat(self, tables: Iterable[Table]) -> list[Table]:
        """The tables whose readers have not received a heartbeat yet."""
        return [table for table in tables if self._read(table).frontier == BEGINNING]

    def forget(self, table: str) -> None:
        """Drops the cached content of a dropped table, given by its id."""
        self._folded.pop(table, None)

    def _instant(self, tables: Iterable[Table]) -> int:
        return max([self._clock(), *(self._read(table).frontier for table in tables)])

    def _read(self, table: Table) -> Fold:
        """The fold of all committed records. Reads only those that were not read before."""
        log = self._folded.get(table.id)
        if log is None or log.source != table.source.id:  # its columns have changed
            log = self._folded[table.id] = self._log_of(table)
        for unread in decided_ranges(self._admin, table.topic, log.next):
            for piece in pieces(self._kafka, [unread]):
                log.fold.take(MessagePiece(piece), unread.key)
            log.next[unread.partition] = unread.end
        return log.fold

    def _begin(self) -> TransactionalWriter:
        """The writer, in a new transaction. Kafka fences a writer that was silent for too long, or if a late request of
        an earlier writer arrives; since nothing is written yet, a new writer begins in its place."""
        writer = self._ready()
        try:
            writer.begin()
        except Fenced:
            writer = self._ready()
            writer.begin()
        return writer

    def _ready(self) -> TransactionalWriter:
        """The writer, or a new one if that cannot begin another transaction."""
        if self._writer is not None and self._writer.must_be_replaced:
            self._writer.close()
            self._writer = None
        if self._writer is None:
            self._writer = self._started()
        return self._writer

    def _started(self) -> TransactionalWriter:
        """A new writer, which fences older ones. Raises Fenced if a newer coordinator leads: it may have written since
        this one has read the tables."""
        self._check_leads()
        writer = self._start()
        try:
            self._check_leads()
        except Fenced:
            writer.close()
            raise
        return writer

    def _check_leads(self) -> None:
        if not self._leads():
            raise Fenced("a newer coordinator has taken over")

    def _write_heartbeats(self, writer: TransactionalWriter, tables: Iterable[Table], instant: int) -> None:
        for table in tables:
            count = table.source.partitions
            headers: list[Headers] = [[(HEARTBEAT_HEADER, str(instant).encode()), *self._writer_headers]] * count
            writer.write(Records(table.topic, [None] * count, [None] * count, headers, list(range(count))))

    def _commit(self, writer: TransactionalWriter, tables: Iterable[Table], promised: int) -> None:
        """Commits. If the answer of the commit was lost, checks that the transaction's heartbeats are in the logs."""
        writer.commit()
        if writer.outcome_unknown and any(self._read(table).frontier < promised for table in tables):
            raise ExternalError(
                "the outcome of a commit was lost, and the log of a table does not have it",
                hint="check the table, and try again",
            )

    def _give_up(self, error: BaseException) -> None:
        """Aborts the transaction by creating a new writer, if this coordinator leads; all later statements of a
        replaced coordinator fail, too. Kafka also fences a writer that took too long, or whose own start came late."""
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        with suppress(ExternalError, Fenced):
            self._writer = self._started()


@dataclass(frozen=True)
class TableContent:
    """The content of a table before a statement."""

    table: Table
    fold: Fold
    all_rows: pa.Table

    def rows(self) -> pa.Table:
        """All rows."""
        return self.all_rows

    def holds(self, keys: pa.Table) -> list[bool]:
        """Whether each of the keys has a row."""
        return [key in self.fold.rows for key in _encoded(self.table.key_schema, keys)]


def _records(table: Table, effect: Effect, instant: int, marked: Headers) -> Iterator[Records]:
    """The records of an effect: the key in JSON, the row in JSON or a tombstone; operation, instant and writer in
    headers."""
    at = [(TS_HEADER, str(instant).encode()), *marked]
    removed = _encoded(table.key_schema, effect.removed)
    if removed:
        yield Records(table.topic, removed, [None] * len(removed), [[(OP_HEADER, b"-"), *at]] * len(removed))
    rows = _encoded(table.schema, effect.upserts)
    if rows:
        keys = _encoded(table.key_schema, effect.upserts.select(list(table.keys)))
        yield Records(table.topic, keys, rows, [at if effect.inserts else [(OP_HEADER, b"u"), *at]] * len(rows))


def _encoded(schema: pa.Schema, rows: pa.Table) -> list[bytes]:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return JsonEncoder(schema).encode(frame).to_list() if frame.height else []

"""Reads the relations of views and queries at an instant, by folding the changes in their result topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import pyarrow as pa

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import PROGRESS
from connectors.kafka.client.topics import last_times
from connectors.kafka.logs.changes import Place
from connectors.kafka.logs.fold import Fold
from connectors.kafka.logs.internal_log import InternalLog
from connectors.kafka.records.pieces import column_pieces, decided_ranges
from dsms.coordinator.results.decoded_rows import DecodedRows, decoded_rows
from dsms.coordinator.results.kept_result import Found, KeptResult
from dsms.coordinator.results.kept_results import KafkaTopicLog, KeptResults
from dsms.coordinator.results.missing_instant import reasons
from dsms.coordinator.results.published_frontiers import PublishedFrontiers
from dsms.model import properties
from dsms.model.catalog import Catalog
from dsms.model.no_final_instant import NoFinalInstant
from dsms.model.objects import Object, Query, Source, Table, kind_of
from dsms.planner.physical.parts.links import result_partitions_of
from dsms.registration.object_columns import schema_and_keys
from dsms.sql.binder.bind import plan_of
from dsms.tables.clock_rows import clock_rows
from dsms.tables.equal_values import EqualValues
from dsms.tables.one_time_query import Relation
from dsms.tables.select_budget import Budget
from dsms.tables.sorted_index import Seek
from dsms.tables.sought_values import SoughtValues
from dsms.tables.wanted_keys import KeyWriter
from operators.core.errors import DsmsError, ExternalError, UserError

#: Kept results by the ids of their queries. They stay for the statement that has them.
Ready = Mapping[str, KeptResult]
#: The most seconds to wait until an instant is final in all results of a SELECT at which all of them are known.
_READY_S = 5.0


class CurrentTables(Protocol):
    """The current tables of a cluster."""

    def rows_at(
        self, table: Table, at: int | None, budget: Budget, wanted: EqualValues, seek: Seek | None = None
    ) -> pa.Table:
        """The rows at an instant, or the current rows if it is None; rows with other than the wanted and sought values
        may be left out. The budget limits the work."""
        ...

    def last_instant(self, tables: Iterable[Table]) -> int:
        """The last instant that is final in all of these tables."""
        ...

    def send_heartbeats(self, tables: Iterable[Table]) -> None:
        """Makes the instants up to the present final in the tables that statements write."""
        ...


@dataclass(frozen=True)
class Reading:
    """What a statement reads: the results that are ready for it, by the ids of their queries; the objects that it reads
    each as of its own last final instant; the values that rows must have, for finding them by key or index."""

    ready: Ready
    apart: frozenset[str] = frozenset()
    wanted: Mapping[str, EqualValues] = field(default_factory=dict)
    sought: Mapping[str, SoughtValues] = field(default_factory=dict)

    def seek(self, name: str, catalog: Catalog) -> Seek | None:
        """What is sought in an object; None if it has no index or nothing is sought."""
        indexes, sought = catalog.indexes_on(name), self.sought.get(name)
        return Seek(indexes, sought) if indexes and sought else None


class Relations:
    """Reads only what is published: records below the frontier that was committed with them."""

    def __init__(self, kafka: KafkaSettings, cluster: str, tables: CurrentTables, alarms: Alarms, kept_mb: int) -> None:
        self._kafka, self._tables, self._alarms = kafka, tables, alarms
        self._admin = kafka.admin()
        self._published = PublishedFrontiers(kafka, InternalLog(kafka, cluster, PROGRESS, alarms))
        self._log = KafkaTopicLog(kafka)
        self._kept = KeptResults(self._log, self._refused, kept_mb)

    def close(self) -> None:
        """Closes the consumers."""
        self._published.close()
        self._log.close()

    def forget(self, query: str) -> None:
        """Lets the kept result of a dropped query go, given by its id."""
        self._kept.forget(query)

    def keep_indexes(self, catalog: Catalog) -> None:
        """Frees the indexes that the catalog does not have any more."""
        self._kept.keep_indexes(catalog)

    def make_ready(self, names: Iterable[str], catalog: Catalog, budget: Budget) -> Ready:
        """Reads the results of queries as far as they are published, and waits until an instant is final in all of them
        at which all of them are known. The topic of a keyed result is compacted: it may lack what a change replaced,
        so the result is known from the last instant on that was in the topic when it was first read."""
        found = [_readable(catalog.find(name)) for name in names]
        queries = [item for item in found if isinstance(item, Query) and item.periodic is None]
        ready = {query.id: self._kept_result(query, catalog) for query in queries}
        pause, deadline = threading.Event(), time.monotonic() + _READY_S
        while queries:
            self._published.read_on()
            frontiers = self._frontiers(queries)
            common = min(self._final_instant(query, frontiers, catalog) for query in queries)
            for query in queries:
                ready[query.id].follow(_last_instant(query, frontiers) + 1, budget)
            if max(kept.floor for kept in ready.values()) <= common or time.monotonic() > deadline:
                break
            budget.check()
            pause.wait(0.02)
        self._kept.shrink()
        return ready

    def follow_recent(self, budget: Budget) -> None:
        """Reads on in the results that statements have used lately. One that cannot be read rests until a statement
        uses it again, which then says why."""
        if not (recent := self._kept.recent()):
            return
        self._published.read_on()
        frontiers = self._frontiers([kept.query for kept in recent])
        for kept in recent:
            try:
                kept.follow(_last_instant(kept.query, frontiers) + 1, budget)
            except DsmsError:
                self._kept.let_rest(kept)
        self._kept.shrink()

    def _kept_result(self, query: Query, catalog: Catalog) -> KeptResult:
        return self._kept.of(query, lambda: schema_and_keys(query, catalog))

    def common_instant(self, names: Iterable[str], catalog: Catalog) -> int | None:
        """The last instant that is final in all of these objects, as far as results are ready; None if there are none
        besides views over the clock, of which every instant is final."""
        readable = [_readable(catalog.find(name)) for name in names]
        queries = [item for item in readable if isinstance(item, Query) and item.periodic is None]
        tables = [item for item in readable if isinstance(item, Table)]
        frontiers = self._frontiers(queries) if queries else {}
        instants = [_last_instant(query, frontiers) for query in queries]
        if instants and tables and self._tables.last_instant(tables) < min(instants):
            self._tables.send_heartbeats(catalog.written_tables())  # so that tables do not hold views back
        return min([*instants, *([self._tables.last_instant(tables)] if tables else [])], default=None)

    def at(
        self,
        instant: int | None,
        catalog: Catalog,
        budget: Budget,
        reading: Reading,
    ) -> Relation:
        """Reads objects by name as of one instant. If `instant` is None, reads the current rows of tables."""

        def rows(name: str) -> pa.Table:
            item, values = _readable(catalog.find(name)), reading.wanted.get(name, {})
            seek = reading.seek(name, catalog)
            own = self.final(name, None, catalog) if name in reading.apart else instant
            if isinstance(item, Table):
                return self._tables.rows_at(item, own, budget, values, seek)
            if item.periodic is not None:
                return clock_rows(item, _given(own, item.name), catalog)
            kept = reading.ready.get(item.id) or self._kept_result(item, catalog)
            assert own is not None
            found = self._kept_rows(item, kept, own, budget, (values, seek))
            return self._folded_rows(item, own, kept.floor, catalog, budget) if found is None else found

        return rows

    def found_by_key(
        self, query: Query, wanted: Sequence[Collection[bytes]], catalog: Catalog, budget: Budget
    ) -> tuple[int, list[Found]]:
        """The last final instant of a query, and the rows that it has then for each of several collections of encoded
        keys. Raises ExternalError if the relation of that instant is not known."""
        self._published.read_on()
        kept = self._kept_result(query, catalog)
        instant = self._final_instant(query, self._frontiers([query]), catalog)
        if (found := kept.found_at(instant, instant + 1, budget, wanted)) is None:  # it is followed for the first time
            self.make_ready([query.name], catalog, budget)
            instant = _last_instant(query, self._frontiers([query]))
            found = kept.found_at(instant, instant + 1, budget, wanted)
        self._kept.shrink()
        if found is None:
            raise ExternalError(f'"{query.name}" changes faster than it is read', hint="try again", retryable=True)
        return instant, found

    def now(self, names: Iterable[str], catalog: Catalog, budget: Budget) -> Relation:
        """Reads objects for a statement that changes a table: the current rows of tables, everything else as of one
        final instant."""
        others = [name for name in names if not isinstance(catalog.find(name), Table)]
        reading = Reading(self.make_ready(others, catalog, budget))
        instant = self.common_instant(others, catalog)
        final, current = self.at(instant, catalog, budget, reading), self.at(None, catalog, budget, reading)
        return lambda name: current(name) if isinstance(catalog.find(name), Table) else final(name)

    def final(self, name: str, instant: int | None, catalog: Catalog) -> int:
        """Checks that the instant is final in an object, and returns it; the last final instant if it is None. Raises
        UserError if it is not final."""
        last = self.common_instant([name], catalog)
        if last is None:
            return _given(instant, name)
        table = catalog.find(name)
        if isinstance(table, Table) and instant is not None and last < instant <= time.time_ns() // 1_000_000:
            self._tables.send_heartbeats(catalog.written_tables())
            last = self._tables.last_instant([table])
        if instant is not None and instant > last:
            raise UserError(f"instant {instant} is not final yet", hint=f'"{name}" is final up to {last}')
        return last if instant is None else instant

    def _kept_rows(
        self, item: Query, kept: KeptResult, instant: int, budget: Budget, only: tuple[EqualValues, Seek | None]
    ) -> pa.Table | None:
        wanted, seek = only
        frontier = _last_instant(item, self._frontiers([item])) + 1
        key_schema = pa.schema([kept.schema.field(key) for key in kept.keys])
        keys = KeyWriter(key_schema, item.format, item.key_schema_id).wanted(wanted) if wanted else None
        rows = kept.rows_at(instant, frontier, budget, keys, seek)
        self._kept.shrink()
        return rows

    def _folded_rows(self, item: Query, instant: int, known: int, catalog: Catalog, budget: Budget) -> pa.Table:
        """The rows at an instant before the first `known` one that is kept, from the start of the topic."""
        schema, keys = schema_and_keys(item, catalog)
        empty = partial(Fold, keyed=bool(keys), at=instant, refused=self._refused, marked_by=item.marked_by)
        fold, rows = self._folded(item, schema, empty(), budget)
        if rows.bad:  # they may have replaced valid rows with the same key
            fold, rows = self._folded(item, schema, empty(bad=rows.bad), budget)
        if fold.later and keys and item.output != "complete":
            raise UserError(
                f'"{item.name}" has changed after instant {instant}, and its topic is compacted',
                hint=f"the earliest instant is {known} now; the topic of CREATE COMPLETE VIEW keeps all changes",
            )
        return rows.table

    def _folded(self, item: Query, schema: pa.Schema, fold: Fold, budget: Budget) -> tuple[Fold, DecodedRows]:
        for wanted, piece in column_pieces(self._kafka, decided_ranges(self._admin, item.topic)):
            fold.take(piece, wanted.key)
            budget.check_relation(item.name, fold.bytes)
        return fold, decoded_rows(list(fold.values()), schema, item.format)

    def _final_instant(self, query: Query, frontiers: dict[str, int], catalog: Catalog) -> int:
        """The last final instant of a query. Raises NoFinalInstant, with what it waits for, if there is none."""
        try:
            return _last_instant(query, frontiers)
        except NoFinalInstant as error:
            read = [] if query.paused else properties.sources(plan_of(query.name, catalog))
            waits = [(each.name, why) for each in read if each.marked_by is None for why in self._waits(each)]
            if query.paused:
                waits = [(query.name, f'it is paused: RESUME {query.kind.upper()} "{query.name}"')]
            raise error.waiting(waits) from error

    def _waits(self, source: Source) -> Iterator[str]:
        places = [(source.topic, partition) for partition in range(source.partitions)]
        return reasons(source, last_times(self._admin, places), time.time_ns() // 1_000_000)

    def _refused(self, place: Place, reason: str) -> None:
        self._alarms.raise_at(place.topic, reason, place.partition, place.offset)

    def _frontiers(self, queries: Iterable[Query]) -> dict[str, int]:
        results = {id: places for query in queries for id, places in result_partitions_of(query).items()}
        return dict(self._published.of(results))


def _given(instant: int | None, name: str) -> int:
    """The instant for which a view over the clock is read. Raises UserError without one."""
    if instant is None:
        hint = f"read it together with a view or table, or as GET /v1/queries/{name}/relation?at=…"
        raise UserError(f'"{name}" is computed from the clock, so an instant must be given', hint=hint)
    return instant


def _readable(item: Object) -> Query | Table:
    """The object if its changes have a topic, or follow from the clock. Raises UserError otherwise."""
    if isinstance(item, Table | Query):
        return item
    raise UserError(
        f'the {kind_of(item)} "{item.name}" has no results that can be read',
        hint=f"create a view of it: CREATE COMPLETE VIEW … AS SELECT * FROM R({item.name})",
    )


def _last_instant(query: Query, frontiers: dict[str, int]) -> int:
    frontier = max((at for at in (frontiers.get(query.id), query.since) if at is not None), default=None)
    if frontier is None:
        raise NoFinalInstant(f'{query.kind} "{query.name}"')
    return frontier - 1

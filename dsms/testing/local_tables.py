"""Tables of a session: the effects of statements as records of the tables' logs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.registration.object_columns import schema_and_keys
from dsms.registration.table_targets import writable
from dsms.tables.dml_effects import Write, effects_of, load_effects, returning_query
from dsms.tables.effect import Effect, counted, key_rows
from dsms.tables.loading import batches_of
from dsms.tables.one_time import evaluate, typed_answer
from dsms.tables.one_time_query import OneTimeQuery, Relation, as_shown
from operators.core.clock import PartitionClock
from operators.core.delta import BEGINNING
from operators.core.distinct_type import stored_schema

#: The fields of instant and operation in the records of a table; no column can have these names.
INSTANT, OPERATION = "__ts", "__op"
Records = list[Mapping[str, object]]


@dataclass(frozen=True)
class _Content:
    """The content of a table in a session."""

    table: Table
    relation: Relation

    def rows(self) -> pa.Table:
        """All rows."""
        return self.relation(self.table.name)

    def holds(self, keys: pa.Table) -> list[bool]:
        """Which keys have a row."""
        known = set(key_rows(self.rows().select(list(self.table.keys))))
        return [key in known for key in key_rows(keys)]


def write_records(
    statement: Write, catalog: Catalog, relation: Relation, instant: int, now: dt.datetime
) -> tuple[Table, Records, StatementResult]:
    """The table of a statement, the records that it adds to the table's log, all at `instant`, and its result.
    `now` is the time of the call."""
    table = writable(statement.table, catalog)
    content = _Content(table, relation)
    read = as_shown(relation, catalog, None if isinstance(statement, st.Insert) else table)
    effects = effects_of(statement, catalog, _rows_over(read), content, now)
    asked = returning_query(statement, catalog, effects, content, now)
    columns, rows, types = ((), (), ()) if asked is None else typed_answer(asked)
    message = counted(sum(effect.count for effect in effects), instant)
    verb = type(statement).__name__.upper()
    return table, _records(effects, instant), StatementResult(verb, message, columns, rows, types=types)


def load_records(
    statement: Load, catalog: Catalog, relation: Relation, instant: int, now: dt.datetime
) -> tuple[Table, Records, StatementResult]:
    """The same as `write_records`, for a statement that loads rows of a file or database."""
    table = writable(statement.table, catalog)
    rows, content = _rows_over(as_shown(relation, catalog)), _Content(table, relation)
    effects = list(load_effects(table, batches_of(statement, table), catalog, rows, content, now))
    message = counted(sum(effect.count for effect in effects), instant)
    return table, _records(effects, instant), StatementResult("LOAD", message)


def _rows_over(relation: Relation) -> Callable[[OneTimeQuery], pa.Table]:
    return lambda asked: evaluate(asked.over(relation))


def _records(effects: Iterable[Effect], instant: int) -> Records:
    return [record for effect in effects for record in _records_of(effect, instant)]


def _records_of(effect: Effect, instant: int) -> Records:
    gone = [{**row, INSTANT: instant, OPERATION: "-"} for row in effect.removed.to_pylist()]
    return gone + [
        {**row, INSTANT: instant, OPERATION: "+" if effect.inserts else "u"} for row in effect.upserts.to_pylist()
    ]


def as_table(name: str, rows: list[dict[str, object]], catalog: Catalog) -> pa.Table:
    """The rows of a stream, view or table as an Arrow table."""
    schema = schema_and_keys(catalog.find(name), catalog)[0]
    return pa.Table.from_pylist(rows, schema=stored_schema(schema)).cast(schema)


def reached(clocks: Iterable[PartitionClock], promised: Iterable[int]) -> int:
    """The greatest instant that any log has reached, at which a statement takes effect; 0 if no log has reached any.

    >>> reached([PartitionClock(7, 7), PartitionClock()], [3])
    7
    """
    furthest = max([*(clock.frontier for clock in clocks), *promised], default=BEGINNING)
    return 0 if furthest == BEGINNING else furthest

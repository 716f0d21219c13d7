"""Tables of a session: the effects of statements as records of the tables' logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.registration.object_columns import schema_and_keys
from dsms.registration.table_targets import writable
from dsms.tables.effect import Effect, counted, key_rows
from dsms.tables.loading import batches_of
from dsms.tables.one_time import answer, evaluate
from dsms.tables.question import Question, Relation, as_shown
from dsms.tables.statements import Write, effects_of, insertions, returned
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


def written(
    statement: Write | Load, catalog: Catalog, relation: Relation, instant: int
) -> tuple[Table, Records, StatementResult]:
    """The table of a statement, the records that it adds to the table's log, all at `instant`, and its result."""
    table = writable(statement.table, catalog)
    content = _Content(table, relation)
    effects = list(_effects(statement, catalog, relation, content))
    asked = returned(statement, catalog, effects, content) if isinstance(statement, Write) else None
    columns, rows = ((), ()) if asked is None else answer(asked)
    records = [record for effect in effects for record in _records(effect, instant)]
    verb = type(statement).__name__.upper() if isinstance(statement, Write) else "LOAD"
    message = counted(sum(effect.count for effect in effects), instant)
    return table, records, StatementResult(verb, message, columns, rows)


def _effects(statement: Write | Load, catalog: Catalog, relation: Relation, content: _Content) -> Iterator[Effect]:
    table, by_statement = content.table, isinstance(statement, Write) and not isinstance(statement, st.Insert)
    read = as_shown(relation, catalog, table if by_statement else None)

    def rows(question: Question) -> pa.Table:
        return evaluate(question.over(read))

    if isinstance(statement, Write):
        yield from effects_of(statement, catalog, rows, content)
    else:
        yield from insertions(table, batches_of(statement, table), catalog, rows, content)


def _records(effect: Effect, instant: int) -> Records:
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

"""Chooses the summaries that show a SELECT with a preference which tuples are promising, that is, to be read first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.schema import schema
from dsms.model.statements import Estimate, Preference
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.optimizer.first_offsets import reading_from
from dsms.registration.object_columns import schema_and_keys
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser.summaries import FUNCTION
from dsms.sql.parser.table_names import name_of
from dsms.tables.one_time_query import is_common
from dsms.tables.promising.read_columns import columns_read
from operators.core.distinct_type import stored
from operators.table_functions.summarize import Summarize


@dataclass(frozen=True)
class ChosenSummary:
    """The summary of a stream that shows its promising tuples: its name and its operator. `columns` are those of the
    stream that the summary has, too, among them all that the query reads. `searched_values` are the constants with
    which the query compares the summarised column; None without such a condition."""

    summary: str
    function: Summarize
    columns: pa.Schema
    by_amount: bool = False
    searched_values: pl.Series | None = None
    #: The instant from which the summary holds, if it has replaced another one.
    since: int | None = None


def chosen_summaries(
    query: exp.Expr, preference: Preference, catalog: Catalog, may_read: Callable[[str], bool]
) -> dict[str, ChosenSummary]:
    """The summary for each stream of the preference, by the name of the stream, among those that may be read.

    Raises SqlError for a name that is not a stream of the query, and if there is no summary of its column that has
    the columns which the query reads.
    """
    chosen: dict[str, ChosenSummary] = {}
    aliases: dict[str, exp.Table] = {}
    for table in query.find_all(exp.Table):  # breadth first, so an outer name comes before an inner one
        if not is_common(table):
            aliases.setdefault(table.alias_or_name.lower(), table)
    for estimate in preference.estimates:
        table = _table(estimate, aliases)
        stream = catalog.find(name_of(table), estimate.place).name
        if stream in chosen:
            raise estimate.place.error(f'PREFERENCE has two estimates of stream "{stream}"')
        current = schema_and_keys(catalog.find(stream), catalog)[0]
        known = [each for each in _summaries(stream, catalog) if may_read(each.query.name)]
        summary, function, summarised = _summary(stream, estimate, known, columns_read(query, current))
        columns = _in_common(current, summarised)
        kind = stored(columns.field(function.column).type)
        if estimate.by_amount and not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        ):
            raise estimate.place.error(f'"{function.column}" is not numeric, so it cannot be multiplied')
        wanted = _wanted(query, table, function.column, kind)
        chosen[stream] = ChosenSummary(summary.name, function, columns, estimate.by_amount, wanted, summary.since)
    return chosen


def _table(estimate: Estimate, aliases: dict[str, exp.Table]) -> exp.Table:
    if estimate.alias is None and len(aliases) == 1:
        return next(iter(aliases.values()))
    if estimate.alias is None or estimate.alias.lower() not in aliases:
        asked = "a column without its stream" if estimate.alias is None else f'"{estimate.alias}"'
        raise estimate.place.error(f"{asked} is ambiguous or not in FROM", f"have: {', '.join(aliases)}")
    return aliases[estimate.alias.lower()]


class _Summary(NamedTuple):
    """A summary, its operator, and the columns that the stream had when the text of the summary was given."""

    query: Query
    function: Summarize
    columns: pa.Schema


def _summary(stream: str, estimate: Estimate, known: Sequence[_Summary], read: pa.Schema) -> _Summary:
    """The first summary of a column that has all columns which are read."""
    fitting = [each for each in known if each.function.column.lower() == estimate.column.lower()]
    if not fitting:
        hint = f"CREATE SUMMARY name ON {stream} ({estimate.column}) WITH GRANULARITY … AND COLLAPSE(…)"
        has = f"; it has summaries of {', '.join(each.function.column for each in known)}" if known else ""
        raise estimate.place.error(f'there is no summary of "{stream}" by "{estimate.column}"{has}', hint)
    for each in fitting:
        if len(_in_common(read, each.columns)) == len(read):
            return each
    first = fitting[0]
    lacking = [field.name for field in read if field not in list(_in_common(read, first.columns))]
    name, columns = first.query.name, ", ".join(f'"{column}"' for column in lacking)
    raise estimate.place.error(
        f'summary "{name}" is older than the current column{"s" if len(lacking) > 1 else ""} {columns} of "{stream}"',
        f"CREATE OR REPLACE SUMMARY {name} …, or read only the other columns (SELECT * reads all)",
    )


def _in_common(columns: pa.Schema, others: pa.Schema) -> pa.Schema:
    """The columns that `others` has with the same types."""
    return pa.schema(
        [each for each in columns if each.name in others.names and others.field(each.name).type == each.type]
    )


def _summaries(stream: str, catalog: Catalog) -> Iterator[_Summary]:
    """The summaries of a stream: the views that only apply SUMMARIZE to the whole stream."""
    for query in catalog.queries():
        if query.kind == "view" and query.start is None and FUNCTION in query.select.upper():
            applied = _unprojected(plan_of(query.name, catalog))
            whole = reading_from(plan_of(stream, catalog, query.text_given), query.first_offsets)
            if (
                isinstance(applied, logical.Apply)
                and isinstance(applied.function, Summarize)
                and applied.input == whole
            ):
                yield _Summary(query, applied.function, schema(whole))


def _unprojected(node: logical.Node) -> logical.Node:
    """The input of a projection to all of its columns."""
    if isinstance(node, logical.Project) and node.outputs == unchanged(schema(node.input)):
        return node.input
    return node


def _wanted(query: exp.Expr, table: exp.Table, column: str, kind: pa.DataType) -> pl.Series | None:
    """The constants of `column = constant` or `column IN (…)`, in the WHERE of the SELECT that names the table."""
    number, text = pa.types.is_integer(kind), pa.types.is_string(kind)
    select = table.find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    if where is None or not (number or text):
        return None
    conditions = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    asked = (_constants(condition.unnest(), table, column) for condition in conditions)
    found = next((constants for constants in asked if constants), [])
    if not found or any(constant.is_string is number for constant in found):
        return None
    if not number:
        return pl.Series([constant.name for constant in found])
    possible = [value for constant in found if (value := int(constant.name)) < 2**63]
    return pl.Series(possible, dtype=pl.Int64) if possible else None


def _constants(condition: exp.Expr, table: exp.Table, column: str) -> list[exp.Literal]:
    """The constants with which a condition compares the column; [] for any other condition."""
    if isinstance(condition, exp.EQ):
        sides = [condition.left, condition.right]
    elif isinstance(condition, exp.In):
        sides = [condition.this, *condition.expressions]
    else:
        return []
    constants = [side for side in sides if isinstance(side, exp.Literal) and (side.is_string or side.name.isdecimal())]
    columns = [side for side in sides if isinstance(side, exp.Column) and side.name.lower() == column.lower()]
    of_table = all(side.table.lower() in ("", table.alias_or_name.lower()) for side in columns)
    return constants if len(columns) == 1 and len(constants) == len(sides) - 1 and of_table else []
